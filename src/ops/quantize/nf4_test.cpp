#include "ops/quantize/nf4_levels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "ops/quantize/quantize.h"
#include "ops/quantize/store.h"
#include "ops/testing/op_check.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

std::vector<float> normals(size_t n, double deviation) {
  std::vector<float> x(n);
  for (size_t i = 0; i < n; ++i)
    x[i] = static_cast<float>(deviation * normal_pair(random_key(3, 0, 1), i)[0]);
  return x;
}

template <typename T>
RefTensor stored_as(Stored stored, const std::vector<float>& x, Dtype dtype) {
  const auto elements = static_cast<int64_t>(x.size());
  std::vector<std::byte> bytes(static_cast<size_t>(stored_bytes(stored, elements)));
  store_floats(stored, x, bytes);
  const auto* first = reinterpret_cast<const T*>(bytes.data());
  const auto n = static_cast<int64_t>(bytes.size() / sizeof(T));
  return {{dtype, {n}}, std::vector<double>(first, first + n)};
}

std::vector<double> round_trip(const std::vector<float>& x) {
  return run_op(dequantize_nf4_def,
                {stored_as<uint8_t>(Stored::nf4_codes, x, Dtype::u8),
                 stored_as<float>(Stored::nf4_scales, x, Dtype::f32)},
                {{"to", "f32"}})[0]
      .v;
}

}  // namespace

TEST(DequantizeNf4, Checks) { check_op(dequantize_nf4_def); }

// Against the definition: of all sixteen levels the nearest one, in double.
TEST(Nf4, TakesTheNearestLevel) {
  const std::vector<float> x = normals(64 * 300, 0.02);
  const std::vector<double> back = round_trip(x);
  double error = 0, least = 0;
  for (size_t block = 0; block < x.size(); block += 64) {
    double largest = 0;
    for (size_t i = block; i < block + 64; ++i) largest = std::max(largest, std::abs(double{x[i]}));
    for (size_t i = block; i < block + 64; ++i) {
      double nearest = std::numeric_limits<double>::infinity();
      for (const float level : kNf4Levels)
        nearest = std::min(nearest, std::abs(double{level} * largest - double{x[i]}));
      EXPECT_NEAR(std::abs(back[i] - double{x[i]}), nearest, 1e-8) << i;
      least += nearest * nearest;
      error += (back[i] - double{x[i]}) * (back[i] - double{x[i]});
    }
  }
  EXPECT_NEAR(std::sqrt(error / least), 1, 1e-6);
  // A normal distribution loses a little less than a tenth of its deviation.
  EXPECT_NEAR(std::sqrt(error / static_cast<double>(x.size())) / 0.02, 0.09, 0.01);
}

TEST(Nf4, KeepsTheLargestOfABlockAndZeros) {
  std::vector<float> x(128, 0);
  x[3] = -7;
  x[64] = 0.5;
  const std::vector<double> back = round_trip(x);
  EXPECT_EQ(back[3], -7);
  EXPECT_EQ(back[64], 0.5);
  EXPECT_EQ(back[0], 0);
  EXPECT_EQ(back[127], 0);
}

// What bitsandbytes makes of these numbers: codes of 0 to 15, the first in the upper half.
TEST(Nf4, PacksTwoCodesInAByte) {
  std::vector<float> x(64, 0);
  x[0] = 1;
  x[1] = -1;
  x[2] = 0.7F;
  x[3] = 0.02F;
  const RefTensor codes = stored_as<uint8_t>(Stored::nf4_codes, x, Dtype::u8);
  EXPECT_EQ(codes.v[0], 0xF0);
  EXPECT_EQ(codes.v[1], 0xE7);
  EXPECT_EQ(codes.v[2], 0x77);
}

}  // namespace snug::ops
