// A block of dynamic8 on the CPU: 8-bit codes and one scale, its largest magnitude. A block of zeros has
// scale 0, and whatever its codes are they then mean zero.
//
//   float scale = quantize(kSignedCodes, n, x, codes);
//   dequantize(kSignedCodes, n, codes, scale, y);
#pragma once

#include "ops/quantize/blocks_cpu.h"
#include "ops/quantize/codebook.h"

namespace snug::ops {

// The codes of the values nearest to x[0..n): how many bounds lie below each; 0 for NaN. `keys` has
// room for n. One look at a table each: adamw8bit takes 3.5 ns per element where a binary search of
// the bounds made it 15 (one thread, 2^20 elements).
inline void nearest_codes(const Codebook& book, int64_t n, const float* x, int32_t* keys,
                          uint8_t* codes) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float above = x[i] > -1.0F ? x[i] : -1.0F;
    keys[i] = Cells::key(above < 1.0F ? above : 1.0F);
  }
  const int32_t* cells = book.cells.data() + Cells::kCount;
  for (int64_t i = 0; i < n; ++i) {
    const int32_t passed = cells[keys[i] >> Cells::kLowBits] + (keys[i] & Cells::kLowMask);
    codes[i] = static_cast<uint8_t>(passed >> Cells::kLowBits);
  }
}

inline void dequantize(const Codebook& book, int64_t n, const uint8_t* codes, float scale,
                       float* x) {
  for (int64_t i = 0; i < n; ++i) x[i] = book.values[codes[i]] * scale;
}

// n <= kDynamic8.block.
inline float quantize(const Codebook& book, int64_t n, const float* x, uint8_t* codes) {
  const float largest = largest_magnitude(n, x);
  const float divisor = largest > 0 ? largest : 1;
  float unit[kDynamic8.block];
  int32_t keys[kDynamic8.block];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) unit[i] = x[i] / divisor;
  nearest_codes(book, n, unit, keys, codes);
  return largest;
}

// For second moments, which are divided by: one that is not zero never becomes zero, where the next
// step would be as large as 1 / eps.
inline float quantize_divisor(int64_t n, const float* x, uint8_t* codes) {
  const float scale = quantize(kUnsignedCodes, n, x, codes);
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) codes[i] = codes[i] == 0 && x[i] > 0 ? 1 : codes[i];
  return scale;
}

}  // namespace snug::ops
