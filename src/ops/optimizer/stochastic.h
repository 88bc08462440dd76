// Unbiased rounding to 2 bytes: up with a probability equal to the fraction that is cut off, so
// that what is lost averages to nothing over steps and elements. Element e of stream s draws 16
// bits of philox(key, e / 8, s): the key changes with every step.
//
//   Bf16 b = round_with<Bf16>(x, rounding_noise(key, stream, element));
#pragma once

#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/half.h"
#include "base/rng.h"

namespace snug::ops {

constexpr uint64_t kPerDraw = 8;  // elements that share one call of philox

// Below 2^16.
constexpr uint32_t rounding_noise(Key key, uint64_t stream, uint64_t element) {
  const uint32_t word = philox(key, element / kPerDraw, stream)[element % 4];
  return element % kPerDraw < 4 ? word & 0xFFFF : word >> 16;
}

// The bits of x, rounded. Infinities and NaN stay, and no finite number that rounds to nearest to a
// finite one becomes infinite: nearest(x), the bits that rounding to nearest gives, replaces it.
// Every backend has its own `nearest` and shares the rest.
template <typename Nearest>
constexpr uint16_t bf16_bits_with(float x, uint32_t noise, const Nearest& nearest) {
  const auto u = std::bit_cast<uint32_t>(x);
  const uint32_t cut = (u + noise) >> 16;  // exactly the 16 bits that bf16 lacks
  const bool usable = (u & 0x7FFFFFFF) < 0x7F800000 && (cut & 0x7FFF) < 0x7F80;
  return usable ? static_cast<uint16_t>(cut) : nearest(x);
}

template <typename Nearest>
constexpr uint16_t f16_bits_with(float x, uint32_t noise, const Nearest& nearest) {
  const auto u = std::bit_cast<uint32_t>(x);
  const uint32_t magnitude = u & 0x7FFFFFFF;
  const auto a = std::bit_cast<float>(magnitude);
  const uint32_t normal = (magnitude + (noise >> 3) - (112U << 23)) >> 13;  // f16 lacks 13 bits
  // Below 2^-14 one unit is 2^-24: cut off what is below it, after the noise.
  const float units = a * 0x1p24F + static_cast<float>(noise >> 3) * 0x1p-13F;
  const auto small = static_cast<uint32_t>(static_cast<int32_t>(units < 1025.0F ? units : 0.0F));
  const uint32_t cut = a < 0x1p-14F ? small : normal;
  const bool usable = a < 65520.0F && cut < 0x7C00;
  return usable ? static_cast<uint16_t>(cut | ((u >> 16) & 0x8000)) : nearest(x);
}

// On the CPU. Bits, for g++ 12 leaves a loop that makes structs scalar: 11 ns instead of 4.5 per
// element of adamw with all arrays in bf16 (one thread).
template <typename T>
uint16_t bits_with(float x, uint32_t noise) {
  const auto nearest = [](float y) { return T(y).bits; };
  if constexpr (std::is_same_v<T, Bf16>) return bf16_bits_with(x, noise, nearest);
  if constexpr (std::is_same_v<T, F16>) return f16_bits_with(x, noise, nearest);
}

template <typename T>
T round_with(float x, uint32_t noise) {
  T result;
  result.bits = bits_with<T>(x, noise);
  return result;
}

}  // namespace snug::ops
