#include "kernels/cpu/mask_bits.h"

#include <gtest/gtest.h>

#include <cmath>

namespace snug::ops {
namespace {

TEST(MaskBits, ManyAtOnceAreTheSameAsOneByOne) {
  const Key key = random_key(5, 3, hash_name("h.0.attn"));
  uint16_t bits[kMaskBits];
  mask_bits(key, 1000, 42, bits);
  for (uint64_t e = 0; e < kMaskBits; ++e)
    EXPECT_EQ(bits[e], sixteen_bits(key, 8000 + e, 42)) << "element " << 8000 + e;
}

TEST(MaskBits, AreUniformAndIndependent) {
  constexpr uint64_t kRuns = 4096;
  int64_t below = 0, pairs = 0, bins[16] = {};
  for (uint64_t run = 0; run < kRuns; ++run) {
    uint16_t bits[kMaskBits];
    mask_bits(random_key(1, 2, 3), run * (kMaskBits / 8), 7, bits);
    for (uint64_t e = 0; e < kMaskBits; ++e) {
      const bool dropped = bits[e] < 6554, next = bits[(e + 1) % kMaskBits] < 6554;
      below += dropped ? 1 : 0;
      pairs += dropped && next ? 1 : 0;
      ++bins[bits[e] / 4096];
    }
  }
  const auto n = static_cast<double>(kRuns * kMaskBits);
  EXPECT_NEAR(static_cast<double>(below) / n, 0.1, 4 * 0.3 / std::sqrt(n));
  EXPECT_NEAR(static_cast<double>(pairs) / n, 0.01, 4 * 0.1 / std::sqrt(n));
  for (const int64_t bin : bins) EXPECT_NEAR(static_cast<double>(bin) * 16 / n, 1, 0.03);
}

}  // namespace
}  // namespace snug::ops
