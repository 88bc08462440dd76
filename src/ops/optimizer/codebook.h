// The 256 numbers in [-1, 1] that an 8-bit state can be, times its block's scale: fine near zero
// and near one at once (Dettmers et al. 2021). For each power 10^(i-6), i = 0..6, the midpoints of
// an even cut of [0.1, 1] into 2^i steps, with both signs (2^(i+1) without); and 0 and 1.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace snug::ops {

struct Codebook {
  std::array<float, 256> values{};  // ascending
  std::array<float, 255> bounds{};  // halfway between neighbours
};

constexpr Codebook make_codebook(bool has_sign) {
  Codebook book;
  size_t used = 0;
  double power = 1e-6;
  for (int i = 0; i <= 6; ++i, power *= 10) {
    const int steps = 1 << (has_sign ? i : i + 1);
    for (int s = 0; s < steps; ++s) {
      const double value = power * (0.1 + 0.9 * (s + 0.5) / steps);
      book.values[used++] = static_cast<float>(value);
      if (has_sign) book.values[used++] = static_cast<float>(-value);
    }
  }
  book.values[used++] = 0;
  book.values[used++] = 1;
  std::sort(book.values.begin(), book.values.end());
  for (size_t i = 0; i + 1 < book.values.size(); ++i)
    book.bounds[i] = (book.values[i] + book.values[i + 1]) / 2;
  return book;
}

inline constexpr Codebook kSignedCodes = make_codebook(true);
inline constexpr Codebook kUnsignedCodes = make_codebook(false);

// The codes of the values nearest to x[0..n): how many bounds lie below each. The search goes
// through all elements at every level, so that it vectorises. `codes` has room for n.
inline void nearest_codes(const Codebook& book, int64_t n, const float* x, int32_t* codes) {
  std::fill_n(codes, n, 0);
  for (int32_t half = 128; half > 0; half /= 2) {
    const float* bounds = book.bounds.data() + half - 1;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) codes[i] += bounds[codes[i]] < x[i] ? half : 0;
  }
}

}  // namespace snug::ops
