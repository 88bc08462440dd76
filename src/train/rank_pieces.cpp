#include "train/rank_pieces.h"

#include <algorithm>

namespace snug {
namespace {

bool is_shard(const Value& value) { return value.shard_of.rank() > 0; }

}  // namespace

void receive_pieces(Communicator& group, int rank, int64_t bytes, const LookAtPiece& visit) {
  std::vector<std::byte> piece(static_cast<size_t>(std::min(bytes, ValuePieces::kPieceBytes)));
  for (int64_t left = bytes; left > 0;) {
    const auto next =
        std::span(piece).first(static_cast<size_t>(std::min(left, ValuePieces::kPieceBytes)));
    group.receive(next, rank, nullptr);
    visit(next);
    left -= static_cast<int64_t>(next.size());
  }
}

// The same pieces, whatever the value's own are.
void send_pieces(Communicator& group, ValuePieces& mine, const ValuePart& part) {
  for (int64_t at = 0; at < part.bytes; at += ValuePieces::kPieceBytes) {
    std::vector<std::byte> piece;
    mine.look({part.value, part.offset + at, std::min(part.bytes - at, ValuePieces::kPieceBytes)},
              [&](std::span<const std::byte> next) {
                piece.insert(piece.end(), next.begin(), next.end());
              });
    group.send(piece, 0, nullptr);
  }
}

PiecesOf over_ranks(const Module& module, ValuePieces& mine, Communicator& group) {
  return [&](const ValuePart& part, const LookAtPiece& visit) {
    const Value& value = module[part.value];
    if (!is_shard(value)) return mine.look(part, visit);
    for (int rank = 0; rank < group.ranks(); ++rank) {
      const ShardPart of = in_shard(value, part, rank);
      if (of.bytes == 0) continue;
      if (rank == 0) {
        mine.look({part.value, of.offset, of.bytes}, visit);
      } else {
        receive_pieces(group, rank, of.bytes, visit);
      }
    }
  };
}

void send_to_first(const Module& module, ValuePieces& mine, Communicator& group, Part part) {
  for (const SavedTensor& tensor : saved_tensors(module, part)) {
    const Value& value = module[tensor.value];
    if (!is_shard(value)) continue;
    const ShardPart of = in_shard(value, tensor.part());
    if (of.bytes > 0) send_pieces(group, mine, {tensor.value, of.offset, of.bytes});
  }
}

}  // namespace snug
