#include "base/rng.h"

#include <bit>
#include <cmath>
#include <numbers>

namespace snug {

std::array<double, 2> normal_pair(Key key, uint64_t counter, uint64_t stream) {
  const auto bits = philox(key, counter, stream);
  auto unit = [](uint32_t hi, uint32_t lo) {  // in (0, 1)
    return (static_cast<double>((uint64_t{hi} << 21) ^ (lo >> 11)) + 0.5) * 0x1p-53;
  };
  const double radius = std::sqrt(-2 * std::log(unit(bits[0], bits[1])));
  const double angle = 2 * std::numbers::pi * unit(bits[2], bits[3]);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

uint64_t permute(Key key, uint64_t i, uint64_t n) {
  if (n < 2) return 0;
  // A four-round Feistel network on the next even power of two, walked until it lands inside [0,
  // n).
  const auto half = static_cast<int>((std::bit_width(n - 1) + 1) / 2);
  const uint64_t mask = (uint64_t{1} << half) - 1;
  uint64_t x = i;
  do {
    uint64_t left = x >> half;
    uint64_t right = x & mask;
    for (uint64_t round = 0; round < 4; ++round) {
      const uint64_t next = left ^ (mix(key ^ mix(right ^ (round << 60))) & mask);
      left = right;
      right = next;
    }
    x = (left << half) | right;
  } while (x >= n);
  return x;
}

}  // namespace snug
