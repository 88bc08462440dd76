// The two 16-bit floats as storage types: made from a float by rounding to nearest, ties to even;
// read back exactly. Conversions have no branches, so loops over them vectorise.
//
//   Bf16 b(3.14159F);   float back = b;   // 3.140625
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace snug {

// The upper half of a float: 8 bits of exponent, 7 of fraction.
struct Bf16 {
  uint16_t bits = 0;

  Bf16() = default;
  explicit Bf16(float x) {
    const auto u = std::bit_cast<uint32_t>(x);
    const uint32_t nearest = (u + 0x7FFF + ((u >> 16) & 1)) >> 16;
    const uint32_t nan = (u >> 16) | 0x40;  // quiet: the fraction's low half may be all there was
    bits = static_cast<uint16_t>(std::isnan(x) ? nan : nearest);
  }
  operator float() const { return std::bit_cast<float>(uint32_t{bits} << 16); }  // NOLINT: exact
};

// IEEE binary16: 5 bits of exponent, 10 of fraction.
struct F16 {
  uint16_t bits = 0;

  F16() = default;
  explicit F16(float x) {
    const auto u = std::bit_cast<uint32_t>(x);
    const uint32_t magnitude = u & 0x7FFFFFFF;
    const float a = std::bit_cast<float>(magnitude);
    // Normal results: round at bit 13, then move the exponent's bias from 127 to 15.
    const uint32_t rounded = magnitude + 0xFFF + ((magnitude >> 13) & 1);
    const uint32_t normal = (rounded - (112U << 23)) >> 13;
    // Below 2^-14: one unit is 2^-24, which is the last place of a float in [0.5, 1), so the
    // addition rounds.
    const uint32_t small = std::bit_cast<uint32_t>(a + 0.5F) - std::bit_cast<uint32_t>(0.5F);
    uint32_t h = a < 0x1p-14F ? small : normal;
    h = a >= 65520.0F ? 0x7C00 : h;
    h = std::isnan(x) ? 0x7E00 : h;
    bits = static_cast<uint16_t>(h | ((u >> 16) & 0x8000));
  }
  operator float() const {  // NOLINT: exact
    const uint32_t magnitude = bits & 0x7FFF;
    const float finite = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
    const uint32_t special = (magnitude << 13) | 0x7F800000;  // infinity and NaN
    const uint32_t u = magnitude >= 0x7C00 ? special : std::bit_cast<uint32_t>(finite);
    return std::bit_cast<float>(u | (uint32_t{bits} & 0x8000) << 16);
  }
};

}  // namespace snug
