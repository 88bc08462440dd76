// dynamic8 on CUDA: both codebooks in shared memory, and the code nearest to a number.
#pragma once

#include <cstdint>

#include "ops/quantize/codebook.h"

namespace snug::ops {

// What a block of threads needs of the two codebooks, in shared memory. Numbers without a sign have no
// cells below zero.
struct alignas(16) Codebooks {
  float signed_values[256], unsigned_values[256];
  int32_t signed_cells[2 * Cells::kCount], unsigned_cells[Cells::kCount];
};

constexpr Codebooks make_codebooks() {
  Codebooks books{};
  for (size_t i = 0; i < 256; ++i) {
    books.signed_values[i] = kSignedCodes.values[i];
    books.unsigned_values[i] = kUnsignedCodes.values[i];
  }
  for (size_t i = 0; i < 2 * Cells::kCount; ++i) books.signed_cells[i] = kSignedCodes.cells[i];
  for (size_t i = 0; i < Cells::kCount; ++i)
    books.unsigned_cells[i] = kUnsignedCodes.cells[i + Cells::kCount];
  return books;
}
static __device__ const Codebooks kCodebooks = make_codebooks();

template <int kThreads>
__device__ void copy_codebooks(Codebooks& to) {
  constexpr int kVectors = sizeof(Codebooks) / sizeof(uint4);
  const auto* from = reinterpret_cast<const uint4*>(&kCodebooks);
  for (int i = static_cast<int>(threadIdx.x); i < kVectors; i += kThreads)
    reinterpret_cast<uint4*>(&to)[i] = from[i];
}

// The code nearest to x, which is in [least, 1]; `cells` begins at zero.
__device__ inline uint32_t nearest_code(const int32_t* cells, float x, float least) {
  const float above = x > least ? x : least;
  const int32_t key = Cells::key(above < 1.0F ? above : 1.0F);
  const int32_t passed = cells[key >> Cells::kLowBits] + (key & Cells::kLowMask);
  return static_cast<uint32_t>(passed >> Cells::kLowBits);
}

}  // namespace snug::ops
