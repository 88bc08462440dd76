#include "base/vec_math.h"

#include <gtest/gtest.h>

#include <limits>

namespace snug {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// The largest error of `fast` against `exact` on n points of [from, to], in units in the last place
// of the result.
template <typename Fast, typename Exact>
double worst_ulp(Fast fast, Exact exact, double from, double to, int n = 400'000) {
  double worst = 0;
  for (int i = 0; i <= n; ++i) {
    const auto x = static_cast<float>(from + (to - from) * i / n);
    const double want = exact(static_cast<double>(x));
    const auto nearest = static_cast<float>(std::abs(want));
    const double ulp = static_cast<double>(std::nextafter(nearest, kInf)) - nearest;
    worst = std::max(worst, std::abs(static_cast<double>(fast(x)) - want) / ulp);
  }
  return worst;
}

double exact_exp(double x) { return std::exp(x); }
double exact_erf(double x) { return std::erf(x); }
double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

}  // namespace

TEST(FastExp, IsWithinTwoUlp) {
  EXPECT_LT(worst_ulp(fast_exp, exact_exp, -1, 1), 2);
  EXPECT_LT(worst_ulp(fast_exp, exact_exp, -87.3, 88.7), 2);
  EXPECT_LT(worst_ulp(fast_exp, exact_exp, -104, -87.3), 2);  // denormal results
}

TEST(FastExp, EndsOfTheRange) {
  EXPECT_EQ(fast_exp(0.0F), 1.0F);
  EXPECT_EQ(fast_exp(-0.0F), 1.0F);
  EXPECT_EQ(fast_exp(-kInf), 0.0F);
  EXPECT_EQ(fast_exp(-1e30F), 0.0F);
  EXPECT_EQ(fast_exp(kInf), kInf);
  EXPECT_EQ(fast_exp(89.0F), kInf);
  EXPECT_TRUE(std::isnan(fast_exp(kNan)));
}

TEST(FastSigmoid, IsWithinThreeUlpAndSaturates) {
  EXPECT_LT(worst_ulp(fast_sigmoid, exact_sigmoid, -80, 80), 3);
  EXPECT_EQ(fast_sigmoid(0.0F), 0.5F);
  EXPECT_EQ(fast_sigmoid(-kInf), 0.0F);
  EXPECT_EQ(fast_sigmoid(kInf), 1.0F);
  EXPECT_TRUE(std::isnan(fast_sigmoid(kNan)));
}

TEST(FastErf, IsWithinThreeUlpAndOdd) {
  EXPECT_LT(worst_ulp(fast_erf, exact_erf, -1.01, 1.01), 3);
  EXPECT_LT(worst_ulp(fast_erf, exact_erf, -6, 6), 3);
  EXPECT_EQ(fast_erf(0.0F), 0.0F);
  EXPECT_EQ(fast_erf(kInf), 1.0F);
  EXPECT_EQ(fast_erf(-kInf), -1.0F);
  EXPECT_EQ(fast_erf(-0.7F), -fast_erf(0.7F));
  EXPECT_TRUE(std::isnan(fast_erf(kNan)));
}

}  // namespace snug
