// Elementwise work on all threads, in blocks of a fixed size: an element's position in its block,
// and so in a vector, never depends on how many threads there are; neither do the bits of the
// result.
//
//   for_blocks(n, [=](int64_t begin, int64_t end) {
//   #pragma omp simd
//     for (int64_t i = begin; i < end; ++i) y[i] = a[i] + b[i];
//   });
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/units.h"

namespace snug::ops {

constexpr int64_t kBlockElements =
    8192;  // 32 KiB of floats: small against a cache, large against a loop's start

template <typename Fn>
void for_blocks(int64_t n, const Fn& fn) {
  const int64_t blocks = ceil_div(n, kBlockElements);
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < blocks; ++b) {
    fn(b * kBlockElements, std::min(n, (b + 1) * kBlockElements));
  }
}

// The bytes of one value into another of the same size; nothing to do when they are the same
// memory.
template <typename T>
void copy_elements(const T* from, T* to, int64_t n) {
  if (from == to) return;
  for_blocks(n,
             [=](int64_t begin, int64_t end) { std::copy(from + begin, from + end, to + begin); });
}

}  // namespace snug::ops
