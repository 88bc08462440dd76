// Values where the host can work on them, in pieces of bounded size: in place where the host can
// address them, otherwise in a buffer of kPieceBytes on the way to the device or from it. So what
// the host holds outside the arenas does not grow with a value.
//
//   ValuePieces pieces(executor);
//   pieces.make(whole(module, weight), [&](std::span<std::byte> next) { read_from(file, next); });
//   pieces.look(whole(module, weight), [&](std::span<const std::byte> next) { ... });
#pragma once

#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "runtime/executor.h"

namespace snug {

// Some of a value's bytes.
struct ValuePart {
  ValueId value;
  int64_t offset = 0;  // from the value's first byte
  int64_t bytes = 0;
};
inline ValuePart whole(const Module& module, ValueId id) {
  return {id, 0, module[id].type.bytes()};
}
// All of a value but what a shard has past the end of the whole.
inline ValuePart without_padding(const Module& module, ValueId id) {
  return {id, 0, module[id].elements_in_whole() * size_of(module[id].type.dtype)};
}

// Called with one piece after another. Pieces begin and end at multiples of kPieceBytes of the value,
// but for the part's own ends.
using LookAtPiece = std::function<void(std::span<const std::byte> next)>;
using MakePiece = std::function<void(std::span<std::byte> next)>;

class ValuePieces {
 public:
  static constexpr int64_t kPieceBytes = int64_t{16} << 20;

  explicit ValuePieces(Executor& executor) : executor_(executor) {}

  void look(const ValuePart& part, const LookAtPiece& visit);
  // `fill` writes every byte of each piece; what was there is not looked at.
  void make(const ValuePart& part, const MakePiece& fill);

 private:
  struct alignas(4096) Page {  // what direct I/O takes without a copy
    std::array<std::byte, 4096> bytes;
  };
  std::span<std::byte> staging(int64_t bytes);

  Executor& executor_;
  std::vector<Page> staging_;  // for values that the host does not address
};

}  // namespace snug
