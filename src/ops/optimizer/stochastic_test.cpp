#include "ops/optimizer/stochastic.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "ops/optimizer/sgd.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

constexpr uint64_t kDraws = 1 << 16;

// Mean error of storing x as T, in units of the distance between the neighbours of x.
template <typename T, typename Round>
double bias(float x, const Round& round) {
  const T below = round_with<T>(x, 0);
  T above = below;
  above.bits++;  // away from zero, as the magnitude is in the low bits
  const double unit = std::abs(static_cast<double>(above) - static_cast<double>(below));
  double error = 0;
  for (uint64_t draw = 0; draw < kDraws; ++draw) {
    const T stored = round(x, draw);
    EXPECT_TRUE(stored.bits == below.bits || stored.bits == above.bits) << x;
    error += static_cast<double>(stored) - static_cast<double>(x);
  }
  return std::abs(error) / static_cast<double>(kDraws) / unit;
}

template <typename T>
T with_noise(float x, uint64_t draw) {
  return round_with<T>(x, rounding_noise(random_key(3, draw, 17), 0, draw));
}
template <typename T>
T to_nearest(float x, uint64_t) {
  return T(x);
}

// The mean of 65,536 draws wanders by 0.002 of a step.
constexpr double kUnbiased = 0.01;

TEST(Stochastic, Bf16HasNoBias) {
  for (float x : {1.001F, -0.0033331F, 3.1e5F, 1e-39F}) {
    EXPECT_LT(bias<Bf16>(x, with_noise<Bf16>), kUnbiased) << x;
    EXPECT_GT(bias<Bf16>(x, to_nearest<Bf16>), kUnbiased) << x << ": nothing to see";
  }
}

TEST(Stochastic, F16HasNoBiasInSubnormalRange) {
  for (float x : {1.0002F, -0.0033331F, 60010.0F, 1.23e-5F, -4e-8F, 1e-8F, 6.1033e-5F}) {
    EXPECT_LT(bias<F16>(x, with_noise<F16>), kUnbiased) << x;
    EXPECT_GT(bias<F16>(x, to_nearest<F16>), kUnbiased) << x << ": nothing to see";
  }
}

TEST(Stochastic, RepresentableValuesAreUnchanged) {
  constexpr float inf = std::numeric_limits<float>::infinity();
  constexpr float largest = std::numeric_limits<float>::max();
  for (uint32_t noise : {0U, 1U, 0x7FFFU, 0xFFFFU}) {
    for (float x : {0.0F, -0.0F, 1.0F, -0.5F, 0x1p-14F, 0x1p-24F, 1536.0F, inf, -inf}) {
      EXPECT_EQ(static_cast<float>(round_with<F16>(x, noise)), x);
      EXPECT_EQ(static_cast<float>(round_with<Bf16>(x, noise)), x);
    }
    for (uint32_t nan : {0x7FC00000U, 0x7F800001U, 0x7FFFFFFFU, 0xFFFFFFFFU}) {
      const auto x = std::bit_cast<float>(nan);
      EXPECT_TRUE(std::isnan(static_cast<float>(round_with<Bf16>(x, noise)))) << nan;
      EXPECT_TRUE(std::isnan(static_cast<float>(round_with<F16>(x, noise)))) << nan;
    }
    EXPECT_EQ(static_cast<float>(round_with<F16>(65519.0F, noise)), 65504.0F);
    EXPECT_EQ(static_cast<float>(round_with<F16>(largest, noise)), inf);
  }
}

TEST(Stochastic, NoiseDependsOnStepStreamElementAndKey) {
  std::set<uint64_t> seen;
  const auto word = [](uint64_t step, const char* key, uint64_t stream, uint64_t element) {
    uint64_t bits = 0;
    for (uint64_t i = 0; i < 4; ++i)
      bits = bits << 16 | rounding_noise(random_key(1, step, hash_name(key)), stream, element + i);
    return bits;
  };
  size_t drawn = 0;
  for (uint64_t step = 1; step < 4; ++step) {
    for (const char* key : {"update.a", "update.b"}) {
      for (uint64_t stream = 0; stream < 3; ++stream) {
        for (uint64_t element = 0; element < 64; element += 4, ++drawn)
          seen.insert(word(step, key, stream, element));
      }
    }
  }
  EXPECT_EQ(seen.size(), drawn);
}

// What a kernel stores follows from seed, step, key and element alone: 0 - 1 * grad, rounded.
TEST(Stochastic, KernelsDrawForEachElement) {
  constexpr int64_t n = 8192 + 1024 + 5;
  const RefTensor param{{Dtype::bf16, {n}}, std::vector<double>(n, 0)};
  RefTensor grad{{Dtype::f32, {n}}, std::vector<double>(n)};
  for (size_t i = 0; i < n; ++i) grad.v[i] = static_cast<double>(unit_float(philox(8, i)[0]));
  const RefTensor stored = run_op(sgd_def,
                                  {param, grad, scalar(Dtype::f32, 1), scalar(Dtype::i64, 7),
                                   scalar(Dtype::f32, 1), scalar(Dtype::i64, 5)},
                                  {{"weight_decay", 0.0}, {"key", "update.w"}})[0];
  const Key key = random_key(5, 7, hash_name("update.w"));
  for (size_t i = 0; i < n; ++i) {
    const auto x = static_cast<float>(-grad.v[i]);
    ASSERT_EQ(stored.v[i], static_cast<double>(round_with<Bf16>(x, rounding_noise(key, 0, i))))
        << i;
  }
}

// A thousand steps, each a fortieth of what bf16 can tell from 1: to nearest they are all lost.
TEST(Stochastic, SmallUpdatesOfABf16ParameterAddUp) {
  constexpr int64_t n = 2048, steps = 1000;
  constexpr double lr = 1e-4;
  RefTensor param{{Dtype::bf16, {n}}, std::vector<double>(n, 1)};
  const RefTensor grad{{Dtype::f32, {n}}, std::vector<double>(n, 1)};
  Bf16 nearest(1.0F);
  for (int64_t step = 1; step <= steps; ++step) {
    param =
        run_op(sgd_def,
               {param, grad, scalar(Dtype::f32, lr), scalar(Dtype::i64, static_cast<double>(step)),
                scalar(Dtype::f32, 1), scalar(Dtype::i64, 5)},
               {{"weight_decay", 0.0}, {"key", "update.w"}})[0];
    nearest = Bf16(static_cast<float>(nearest) - static_cast<float>(lr));
  }
  double mean = 0;
  for (double p : param.v) mean += p / n;
  EXPECT_NEAR(mean, 1 - lr * steps, 2e-3);
  EXPECT_EQ(static_cast<float>(nearest), 1.0F);
}

}  // namespace
}  // namespace snug::ops
