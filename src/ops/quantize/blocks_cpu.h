// One block of int8 or nf4 on the CPU: what kernels make of activations, and the host of weights.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>

#include "ops/quantize/format.h"
#include "ops/quantize/int8_scale.h"
#include "ops/quantize/nf4_levels.h"

namespace snug::ops {

// NaN is left out.
inline float largest_magnitude(int64_t n, const float* x) {
  float largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) largest = std::abs(x[i]) > largest ? std::abs(x[i]) : largest;
  return largest;
}

// The largest magnitude. Compared as integers, where infinity is above every number and NaN above
// infinity: neither is lost, and the order of the elements does not matter.
inline float absmax(const float* x, int64_t n) {
  uint32_t largest = 0;
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) {
    largest = std::max(largest, std::bit_cast<uint32_t>(x[i]) & 0x7FFFFFFF);
  }
  return std::bit_cast<float>(largest);
}

// n <= kInt8.block. Returns the scale.
template <typename T>
float quantize_int8_block(const T* x, int8_t* payload, int64_t n) {
  float values[kInt8.block];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) values[i] = static_cast<float>(x[i]);
  const Int8Scale scale = Int8Scale::of(absmax(values, n));
  if (scale.inverse == 0) {
    std::fill_n(payload, n, int8_t{0});
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) payload[i] = scale.quantize(values[i]);
  }
  return scale.scale;
}

// The level that is nearest: how many middles are below.
inline uint8_t nf4_code(float x) {
  int above = 0;
  for (const float middle : kNf4Middles) above += x > middle ? 1 : 0;
  return static_cast<uint8_t>(above);
}

// Of finite numbers. Returns the scale.
inline float quantize_nf4_block(std::span<const float> x, std::byte* codes) {
  const float largest = largest_magnitude(std::ssize(x), x.data());
  const float inverse = largest > 0 ? 1 / largest : 0;
  for (size_t i = 0; i < x.size(); i += 2) {
    const uint8_t first = nf4_code(x[i] * inverse);
    const uint8_t second = i + 1 < x.size() ? nf4_code(x[i + 1] * inverse) : 0;
    codes[i / 2] = static_cast<std::byte>(first << 4 | second);
  }
  return largest;
}

}  // namespace snug::ops
