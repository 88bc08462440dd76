#include "checkpoint/rank_pieces.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "checkpoint/trained_output.h"
#include "checkpoint/transfer_progress.h"
#include "ir/tensor_cut.h"

namespace snug {
namespace {

bool is_shard(const Value& value) { return value.shard_of.rank() > 0; }

// Of another rank's bytes, in pieces.
void receive(Communicator& group, int rank, int64_t bytes, const LookAtPiece& visit) {
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
void send(Communicator& group, ValuePieces& mine, const ValuePart& part) {
  for (int64_t at = 0; at < part.bytes; at += ValuePieces::kPieceBytes) {
    std::vector<std::byte> piece;
    mine.look({part.value, part.offset + at, std::min(part.bytes - at, ValuePieces::kPieceBytes)},
              [&](std::span<const std::byte> next) {
                piece.insert(piece.end(), next.begin(), next.end());
              });
    group.send(piece, 0, nullptr);
  }
}

// --- of parameters that tensor ranks cut ---------------------------------------------------------

// A rank's part of such a parameter.
struct Holding {
  TensorCut cut;
  int64_t begin = 0, end = 0;  // elements of its part
};

Holding holding_of(const Module& module, const Value& value, int64_t part, int64_t shard) {
  const int64_t block = value.type.shape.elements(), all = value.whole().elements();
  const int64_t begin = is_shard(value) ? std::min(shard * block, all) : 0;
  return {cut_of_part(tensor_cut_of(module, value), part), begin, std::min(begin + block, all)};
}

// Runs of the holding in some elements of the whole, and their number.
std::vector<WholeRun> runs_in(const Holding& holding, int64_t from, int64_t to) {
  std::vector<WholeRun> runs;
  for_runs_in(holding.cut, holding.begin, holding.end, from, to,
              [&](const WholeRun& run) { runs.push_back(run); });
  return runs;
}

// One after another; neighbours are read together.
std::vector<std::byte> read_runs(ValuePieces& mine, ValueId value, const Holding& holding,
                                 std::span<const WholeRun> runs, int64_t size) {
  std::vector<std::byte> bytes;
  for (size_t i = 0, end = 0; i < runs.size(); i = end) {
    int64_t elements = 0;
    for (end = i; end < runs.size() && runs[end].first == runs[i].first + elements; ++end)
      elements += runs[end].elements;
    mine.look({value, (runs[i].first - holding.begin) * size, elements * size},
              [&](std::span<const std::byte> next) {
                bytes.insert(bytes.end(), next.begin(), next.end());
              });
  }
  return bytes;
}

template <typename Fn>
void for_whole_pieces(const ValuePart& part, int64_t size, const Fn& fn) {
  const int64_t each = ValuePieces::kPieceBytes / size, end = (part.offset + part.bytes) / size;
  for (int64_t from = part.offset / size; from < end; from += each)
    fn(from, std::min(end, from + each));
}

}  // namespace

void RankPieces::look(const ValuePart& part, const LookAtPiece& visit) {
  const Value& value = module_[part.value];
  if (tensor_cut_of(module_, value).on()) return look_at_boxes(part, visit);
  for (int64_t shard = 0; shard < shards_of(value); ++shard) {
    const ShardPart of = is_shard(value) ? in_shard(value, part, static_cast<int>(shard))
                                         : ShardPart{.offset = part.offset, .bytes = part.bytes};
    if (of.bytes == 0) continue;
    if (const int rank = rank_of(part.value, shard, 0); rank == 0) {
      mine_.look({own(part.value), of.offset, of.bytes}, visit);
    } else {
      receive(group_, rank, of.bytes, visit);
    }
  }
}

void RankPieces::look_at_boxes(const ValuePart& part, const LookAtPiece& visit) {
  const Value& value = module_[part.value];
  const int64_t size = size_of(value.type.dtype);
  for_whole_pieces(part, size, [&](int64_t from, int64_t to) {
    std::vector<std::byte> whole(static_cast<size_t>((to - from) * size));
    for_holders(value, [&](int64_t shard, int64_t tensor_part) {
      const Holding holding = holding_of(module_, value, tensor_part, shard);
      const std::vector<WholeRun> runs = runs_in(holding, from, to);
      int64_t elements = 0;
      for (const WholeRun& run : runs) elements += run.elements;
      if (elements == 0) return;
      std::vector<std::byte> bytes(static_cast<size_t>(elements * size));
      if (const int rank = rank_of(part.value, shard, tensor_part); rank == 0) {
        bytes = read_runs(mine_, own(part.value), holding, runs, size);
      } else {
        group_.receive(bytes, rank, nullptr);
      }
      auto next = bytes.begin();
      for (const WholeRun& run : runs) {
        std::copy_n(next, run.elements * size, whole.begin() + (run.whole_first - from) * size);
        next += run.elements * size;
      }
    });
    visit(whole);
  });
}

void RankPieces::send(Part which) {
  for (const SavedTensor& tensor : saved_tensors(module_, which)) {
    const Value& value = module_[tensor.value];
    if (stage_of(tensor.value) != mesh_.stage || sharding_.place() >= shards_of(value)) continue;
    if (tensor_cut_of(module_, value).on()) {
      send_boxes(tensor.part());
    } else if (rank_of(tensor.value, sharding_.place(), mesh_.part) != 0 && mesh_.part == 0) {
      const ShardPart of = is_shard(value)
                               ? in_shard(value, tensor.part())
                               : ShardPart{.offset = tensor.offset, .bytes = tensor.bytes};
      if (of.bytes > 0) snug::send(group_, mine_, {own(tensor.value), of.offset, of.bytes});
    }
  }
}

void RankPieces::send_boxes(const ValuePart& part) {
  const Value& value = module_[part.value];
  const int64_t size = size_of(value.type.dtype);
  const Holding holding{tensor_cut_of(module_, value), value.shard_first,
                        value.shard_first + value.elements_in_whole()};
  for_whole_pieces(part, size, [&](int64_t from, int64_t to) {
    const std::vector<WholeRun> runs = runs_in(holding, from, to);
    if (!runs.empty())
      group_.send(read_runs(mine_, own(part.value), holding, runs, size), 0, nullptr);
  });
}

PiecesOf over_ranks(RankPieces& ranks) {
  return [&](const ValuePart& part, const LookAtPiece& visit) { ranks.look(part, visit); };
}

void save_from_ranks(const Resolved& run, const RecomputePolicy& recompute, const Module& module,
                     ValuePieces& mine, JobLinks* job,
                     const std::function<void(const std::string&)>& doing) {
  const Part part = trained_part(run.recipe);
  std::optional<StageTensors> stages;
  if (run.recipe.mesh.pp > 1) stages.emplace(run, recompute, module, *job, part);
  const Module& whole = stages ? stages->whole() : module;
  std::optional<RankPieces> ranks;
  if (job != nullptr)
    ranks.emplace(whole, mine, job->host_group(kModelGroup), run.recipe,
                  stages ? &*stages : nullptr);
  if (job == nullptr || job->is_first()) {
    TransferProgress progress("saving", saved_bytes(whole, part), doing);
    PiecesOf all = ranks ? over_ranks(*ranks) : pieces_of(mine);
    save_trained(run, whole, progress.pieces_of(std::move(all)), to_toml(run, recompute),
                 run.options.out);
  } else if (run.recipe.sharding.copy() == 0) {  // others have the same shards
    ranks->send(part);
  }
}

}  // namespace snug
