#include "ops/quantize/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// Stored and restored on the CPU.
std::vector<double> round_trip(const std::vector<double>& x, Dtype dtype = Dtype::f32) {
  const RefTensor in{{dtype, {static_cast<int64_t>(x.size())}}, x};
  const auto kept = run_op(quantize_int8_def, {in});
  return run_op(dequantize_int8_def, kept, {{"to", std::string(name_of(dtype))}})[0].v;
}

std::vector<double> normals(size_t n, double std) {
  std::vector<double> x(n);
  for (size_t i = 0; i < n; ++i) {
    x[i] = static_cast<double>(static_cast<float>(std * normal_pair(random_key(3, 0, 1), i)[0]));
  }
  return x;
}

}  // namespace

TEST(QuantizeInt8, Checks) { check_op(quantize_int8_def); }
TEST(QuantizeInt8, ChecksInHalves) { check_op_in_halves(quantize_int8_def); }
TEST(DequantizeInt8, Checks) { check_op(dequantize_int8_def); }

TEST(Int8, ErrorIsWithinHalfALevel) {
  std::vector<double> x = normals(1000, 3);
  x[500] = 1000;  // an outlier costs precision in its own block only
  const std::vector<double> back = round_trip(x);
  for (size_t block = 0; block < x.size(); block += kInt8.block) {
    const size_t end = std::min(x.size(), block + kInt8.block);
    double absmax = 0;
    for (size_t i = block; i < end; ++i) absmax = std::max(absmax, std::abs(x[i]));
    for (size_t i = block; i < end; ++i) {
      EXPECT_NEAR(back[i], x[i], absmax / 254 * (1 + 1e-5)) << i;
    }
  }
  EXPECT_NEAR(back[500], 1000, 1e-3) << "the largest of a block comes back as it was";
}

TEST(Int8, RoundTripIsIdempotent) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16}) {
    const std::vector<double> once = round_trip(normals(640, 1), dtype);
    const std::vector<double> twice = round_trip(once, dtype);
    for (size_t i = 0; i < once.size(); ++i) {
      EXPECT_NEAR(twice[i], once[i], 1e-2 * std::abs(once[i])) << i;
    }
  }
}

TEST(Int8, KeepsZerosAndFlushesOnlyTinyValues) {
  EXPECT_THAT(round_trip(std::vector<double>(200, 0.0)), Each(0.0));
  EXPECT_THAT(round_trip(std::vector<double>(200, 1e-44)), Each(0.0));
  EXPECT_THAT(round_trip(std::vector<double>(200, 1e-20)),
              Each(::testing::DoubleNear(1e-20, 1e-26)));
}

TEST(Int8, NonFiniteValuesStayVisible) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    for (const double bad : {kInfinity, -kInfinity, kNan}) {
      std::vector<double> x(384, 1.0);
      x[200] = bad;
      const std::vector<double> back = round_trip(x, dtype);
      for (size_t i = 0; i < x.size(); ++i) {
        const bool same_block = i / kInt8.block == 200 / kInt8.block;
        EXPECT_EQ(std::isfinite(back[i]), !same_block) << bad << " at " << i;
      }
    }
  }
}

TEST(Int8, UsesExpectedBytes) {
  Module m;
  Builder b(m, "p");
  const ValueId x =
      add_shared(m, "x", {Dtype::bf16, {8, 1024, 768}}, Category::inputs, Scope::step);
  const Quantized kept = quantize(b, "x.int8", kInt8, x);
  const int64_t bytes = m[kept.payload].type.bytes() + m[kept.scales].type.bytes();
  EXPECT_EQ(bytes, m[x].type.bytes() / 2 + m[x].type.bytes() / 64);
  EXPECT_EQ(m[dequantize(b, "x.restored", kInt8, kept, Dtype::bf16)].type, m[x].type);
}

TEST(Int8, RefusesBadInputs) {
  Module m;
  Builder b(m, "p");
  auto input = [&](const char* name, Type type) {
    return add_shared(m, name, type, Category::inputs, Scope::step);
  };
  const ValueId tokens = input("tokens", {Dtype::i32, {2, 8}});
  EXPECT_THAT(refusal_of([&] { quantize(b, "q", kInt8, tokens); }),
              HasSubstr("quantize_int8 'q': x i32[2,8] cannot be compressed to int8"));
  const ValueId wide = input("wide", {Dtype::f64, {2, 8}});
  EXPECT_THAT(refusal_of([&] { quantize(b, "q", kInt8, wide); }),
              HasSubstr("only f32, bf16 and f16"));
  const Quantized kept = quantize(b, "q", kInt8, input("x", {Dtype::f32, {3, 100}}));
  EXPECT_THAT(refusal_of([&] { dequantize(b, "d", kInt8, kept, Dtype::i32); }),
              HasSubstr("'i32' is not f32, bf16 or f16"));
  const ValueId few = input("few", {Dtype::f32, {2}});
  EXPECT_THAT(refusal_of([&] {
                dequantize(b, "d", kInt8, {kept.payload, few}, Dtype::f32);
              }),
              HasSubstr("scales f32[2] do not belong to payload i8[3,100]: one per 128 elements "
                        "makes f32[3]"));
  EXPECT_THAT(refusal_of([&] {
                dequantize(b, "d", kInt8, {tokens, few}, Dtype::f32);
              }),
              HasSubstr("payload i32[2,8] is not i8"));
}

}  // namespace snug::ops
