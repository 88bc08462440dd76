// Float functions without branches or calls, so that a loop over them vectorises under `#pragma omp
// simd`. fast_exp is within 2 ulp of the true value over the whole range, the others within 3
// (vec_math_test.cpp measures it). NaN stays NaN.
//
//   #pragma omp simd
//   for (int64_t i = 0; i < n; ++i) y[i] = x[i] * fast_sigmoid(x[i]);
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace snug {

// 2^n for n in [-126, 127].
inline float exp2_int(int32_t n) {
  return std::bit_cast<float>(static_cast<uint32_t>(n + 127) << 23);
}

// e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln 2 / 2. exp(0) is exactly 1, exp(-inf) is 0,
// exp(89) is inf.
inline float fast_exp(float x) {
  x = x < -104.0F ? -104.0F : x;  // below half of the smallest denormal; a NaN passes both lines
  x = x > 89.0F ? 89.0F : x;
  // Adding 1.5 * 2^23 leaves the rounded integer in the low bits of the sum.
  constexpr float kRound = 12582912.0F;
  const float biased = x * 1.44269504F + kRound;
  const float n = biased - kRound;
  const float r =
      (x - n * 0.693359375F) + n * 2.12194440e-4F;  // ln 2 in two parts: n * the first is exact
  float p = 1.39261761e-3F;
  p = p * r + 8.36317307e-3F;
  p = p * r + 4.16665547e-2F;
  p = p * r + 1.66665770e-1F;
  p = p * r + 0.5F;
  const float e = (p * r) * r + r + 1.0F;
  // In two halves: 2^n alone would leave the normal range where the result is denormal or infinite.
  const int32_t whole = std::bit_cast<int32_t>(biased) - std::bit_cast<int32_t>(kRound);
  const int32_t half = whole >> 1;
  return e * exp2_int(half) * exp2_int(whole - half);
}

inline float fast_sigmoid(float x) { return 1.0F / (1.0F + fast_exp(-x)); }

inline float fast_erf(float x) {
  // Near zero: x P(x^2).
  const float s = x * x;
  float p = 7.87587506e-5F;
  p = p * s - 8.01686429e-4F;
  p = p * s + 5.18908742e-3F;
  p = p * s - 2.68542120e-2F;
  p = p * s + 1.12835947e-1F;
  p = p * s - 3.76126267e-1F;
  p = p * s + 1.12837917F;
  // Beyond 1: 1 - e^(-a Q(a)) with a = |x|; from 4 on the float nearest to erf is 1.
  const float a = std::abs(x) > 4.0F ? 4.0F : std::abs(x);
  float q = -1.16603250e-6F;
  q = q * a + 3.65930118e-5F;
  q = q * a - 5.15745564e-4F;
  q = q * a + 4.37392262e-3F;
  q = q * a - 2.53086012e-2F;
  q = q * a + 1.08091913e-1F;
  q = q * a + 6.33971448e-1F;
  q = q * a + 1.12895724F;
  const float far = std::copysign(1.0F - fast_exp(-a * q), x);
  return std::abs(x) < 1.0F ? x * p : far;
}

}  // namespace snug
