#include "base/half.h"

#include <gtest/gtest.h>

#include <limits>

namespace snug {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

template <typename H>
H from_bits(uint32_t bits) {
  H h;
  h.bits = static_cast<uint16_t>(bits);
  return h;
}

template <typename H>
void expect_every_value_survives() {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float x = from_bits<H>(bits);
    if (std::isnan(x)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(H(x)))) << bits;
    } else {
      EXPECT_EQ(H(x).bits, bits);
    }
  }
}

// Between every two neighbours: the middle goes to the even one, its neighbours to the nearer one.
template <typename H>
void expect_rounding(uint32_t largest) {
  for (uint32_t bits = 0; bits < largest; ++bits) {
    const double low = from_bits<H>(bits);
    const double high = from_bits<H>(bits + 1);
    const auto middle = static_cast<float>((low + high) / 2);
    ASSERT_EQ(H(middle).bits, bits + (bits & 1)) << bits;
    ASSERT_EQ(H(std::nextafter(middle, 0.0F)).bits, bits) << bits;
    ASSERT_EQ(H(std::nextafter(middle, kInf)).bits, bits + 1) << bits;
    ASSERT_EQ(H(-std::nextafter(middle, kInf)).bits, 0x8000U | (bits + 1)) << bits;
  }
}

}  // namespace

TEST(Bf16, EveryValueSurvives) { expect_every_value_survives<Bf16>(); }
TEST(Bf16, RoundsToNearestEven) { expect_rounding<Bf16>(0x7F7F); }
TEST(Bf16, EndsOfTheRange) {
  EXPECT_EQ(Bf16(kInf).bits, 0x7F80);
  EXPECT_EQ(Bf16(std::numeric_limits<float>::max()).bits, 0x7F80);  // rounds up to infinity
  EXPECT_TRUE(std::isnan(static_cast<float>(Bf16(std::bit_cast<float>(0x7F800001U)))));
}

TEST(F16, EveryValueSurvives) { expect_every_value_survives<F16>(); }
TEST(F16, RoundsToNearestEven) { expect_rounding<F16>(0x7BFF); }
TEST(F16, EndsOfTheRange) {
  EXPECT_EQ(static_cast<float>(F16(65504.0F)), 65504.0F);
  EXPECT_EQ(static_cast<float>(F16(65519.0F)), 65504.0F);
  EXPECT_EQ(F16(65520.0F).bits, 0x7C00);
  EXPECT_EQ(F16(-1e30F).bits, 0xFC00);
  EXPECT_EQ(F16(kInf).bits, 0x7C00);
  EXPECT_EQ(F16(1e-10F).bits, 0);
  EXPECT_TRUE(std::isnan(static_cast<float>(F16(std::nanf("")))));
}

}  // namespace snug
