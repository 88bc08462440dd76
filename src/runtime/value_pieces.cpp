#include "runtime/value_pieces.h"

#include <algorithm>

namespace snug {
namespace {

// The piece that begins at byte `at` of the value, in a part that ends at `end`.
int64_t piece_bytes(int64_t at, int64_t end) {
  return std::min(end - at, ValuePieces::kPieceBytes - at % ValuePieces::kPieceBytes);
}

template <typename Fn>
void for_each_piece(const ValuePart& part, const Fn& visit) {
  const int64_t end = part.offset + part.bytes;
  for (int64_t at = part.offset, n = 0; at < end; at += n) {
    n = piece_bytes(at, end);
    visit(at, n);
  }
}

}  // namespace

void ValuePieces::look(const ValuePart& part, const LookAtPiece& visit) {
  if (executor_.host_addresses(part.value)) {
    const std::span<const std::byte> bytes = executor_.bytes(part.value);
    for_each_piece(part, [&](int64_t at, int64_t n) {
      visit(bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(n)));
    });
    return;
  }
  for_each_piece(part, [&](int64_t at, int64_t n) {
    const std::span<std::byte> piece = staging(n);
    executor_.read(part.value, at, piece);
    visit(piece);
  });
}

void ValuePieces::make(const ValuePart& part, const MakePiece& fill) {
  if (executor_.host_addresses(part.value)) {
    const std::span<std::byte> bytes = executor_.bytes(part.value);
    for_each_piece(part, [&](int64_t at, int64_t n) {
      fill(bytes.subspan(static_cast<size_t>(at), static_cast<size_t>(n)));
    });
    return;
  }
  for_each_piece(part, [&](int64_t at, int64_t n) {
    const std::span<std::byte> piece = staging(n);
    fill(piece);
    executor_.write(part.value, at, piece);
  });
}

std::span<std::byte> ValuePieces::staging(int64_t bytes) {
  if (staging_.empty()) staging_.resize(kPieceBytes / sizeof(Page));
  return std::as_writable_bytes(std::span(staging_)).first(static_cast<size_t>(bytes));
}

}  // namespace snug
