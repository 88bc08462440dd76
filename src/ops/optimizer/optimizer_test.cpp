// Norm, clipping, the step count and the loss scale; update_test.cpp has the methods.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "ops/optimizer/clip.h"
#include "ops/optimizer/loss_scale.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using ::testing::HasSubstr;

TEST(SumSquares, Checks) { check_op(sum_squares_def); }
TEST(Clip, Checks) { check_op(clip_def); }
TEST(Advance, Checks) { check_op(advance_def); }
TEST(AdjustLossScale, Checks) { check_op(adjust_loss_scale_def); }

TEST(Clip, NonFiniteNormsTurnTheUpdateOff) {
  for (double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    const auto out =
        run_op(clip_def, {absent(), absent(), scalar(Dtype::f64, bad)}, {{"max_norm", 1.0}});
    EXPECT_FALSE(std::isfinite(out[0].v[0])) << bad;  // the norm of 1e300 is no float
    EXPECT_EQ(out[2].v[0], 0) << bad;
  }
}

TEST(Clip, ANonFiniteLossTurnsTheUpdateOffAndLeavesTheNormAlone) {
  for (double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const auto out = run_op(clip_def, {absent(), scalar(Dtype::f32, bad), scalar(Dtype::f64, 25)},
                            {{"max_norm", 1.0}});
    EXPECT_EQ(out[0].v[0], 5) << bad;
    EXPECT_EQ(out[2].v[0], 0) << bad;
  }
}

TEST(Clip, ALossScaleIsTakenOutAgain) {
  const auto out = run_op(
      clip_def, {scalar(Dtype::f32, 8), absent(), scalar(Dtype::f64, 64), scalar(Dtype::f64, 1536)},
      {{"max_norm", 2.5}});
  EXPECT_EQ(out[0].v[0], 5);  // sqrt(1600) / 8
  EXPECT_NEAR(out[1].v[0], 0.5 / 8, 1e-7);
  EXPECT_EQ(out[2].v[0], 1);
}

TEST(SumSquares, SameBitsOnAnyNumberOfThreads) {
  RefTensor x{{Dtype::f32, {200'001}}, std::vector<double>(200'001)};
  for (size_t i = 0; i < x.v.size(); ++i) x.v[i] = unit_float(philox(5, i)[0]);
  const auto bits = [&] { return run_op(sum_squares_def, {x, x})[0].v; };
  EXPECT_TRUE(with_threads(1, bits) == with_threads(3, bits));
}

TEST(AdjustLossScale, FallsAtOnceAndGrowsAfterCleanSteps) {
  RefTensor loss_scale = scalar(Dtype::f32, 4), clean = scalar(Dtype::i64, 0);
  const Attrs attrs{{"growth", 2.0}, {"backoff", 0.5}, {"interval", 3}, {"floor", 1.0}};
  std::vector<double> scales;
  for (int finite : {1, 1, 0, 1, 1, 1, 0, 0, 0, 1}) {
    const auto out =
        run_op(adjust_loss_scale_def, {loss_scale, clean, scalar(Dtype::i32, finite)}, attrs);
    loss_scale = out[0];
    clean = out[1];
    scales.push_back(loss_scale.v[0]);
  }
  EXPECT_EQ(scales, (std::vector<double>{4, 4, 2, 2, 2, 4, 2, 1, 1, 1}));
  EXPECT_EQ(clean.v[0], 1);
}

class OptimizerProgram : public ::testing::Test {
 protected:
  ValueId value(const char* name, Dtype dtype, Shape shape = {}) {
    return add_shared(module, name, {dtype, shape}, Category::optimizer, Scope::persistent);
  }
  Module module{.name = "optimizer"};
  Builder b{module, "update"};
  ValueId g = value("g", Dtype::f32, {3, 4}), h = value("h", Dtype::f16, {3, 4});
  ValueId real = value("real", Dtype::f32), count = value("count", Dtype::i64);
};

TEST_F(OptimizerProgram, CountsAndScalesInPlace) {
  const Clip c = clip(b, "clip", {sum_squares(b, "norm", {g, h})}, 1.0, real);
  const ValueId next = advance(b, "count", count, c.finite);
  EXPECT_EQ(module[next].base, count);
  EXPECT_EQ(b.last().predicate, c.finite);
  const ValueId clean = value("clean", Dtype::i64);
  const NextLossScale n =
      adjust_loss_scale(b, "adjust", {.loss_scale = real, .clean = clean, .finite = c.finite});
  EXPECT_EQ(module[n.loss_scale].base, real);
  EXPECT_EQ(module[n.clean].base, clean);
}

TEST_F(OptimizerProgram, RefusesWrongTypes) {
  EXPECT_THAT(refusal_of([&] { sum_squares(b, "s", {}); }), HasSubstr("no gradients"));
  EXPECT_THAT(refusal_of([&] {
                sum_squares(b, "s", {g, count});
              }),
              HasSubstr("i64[] is no gradient"));
  EXPECT_THAT(refusal_of([&] { clip(b, "c", {real}, 1.0); }), HasSubstr("sum_squares is f32[]"));
  EXPECT_THAT(refusal_of([&] { clip(b, "c", {}, 1.0); }), HasSubstr("no sum of squares"));
  const ValueId sum = sum_squares(b, "s", {g});
  EXPECT_THAT(refusal_of([&] { clip(b, "c", {sum}, 1.0, count); }),
              HasSubstr("loss_scale is i64[], not f32[]"));
  EXPECT_THAT(refusal_of([&] { clip(b, "c", {sum}, 1.0, real, count); }),
              HasSubstr("loss is i64[], not f32[]"));
  EXPECT_THAT(refusal_of([&] { advance(b, "n", real); }), HasSubstr("the counter is f32[]"));
}

TEST_F(OptimizerProgram, RefusesLossScalesThatCannotWork) {
  const ValueId clean = value("clean", Dtype::i64), finite = value("finite", Dtype::i32);
  AdjustLossScale good{.loss_scale = real, .clean = clean, .finite = finite};
  const auto refused = [&](auto change) {
    AdjustLossScale p = good;
    change(p);
    return refusal_of([&] { adjust_loss_scale(b, "a", p); });
  };
  EXPECT_EQ(refused([](auto&) {}), "");
  EXPECT_THAT(refused([](auto& p) { p.growth = 0.5; }), HasSubstr("growth 0.5 would shrink"));
  EXPECT_THAT(refused([](auto& p) { p.backoff = 2; }), HasSubstr("back-off 2 is not in (0, 1]"));
  EXPECT_THAT(refused([](auto& p) { p.interval = 0; }), HasSubstr("interval of 0 steps"));
  EXPECT_THAT(refused([](auto& p) { p.floor = 0; }), HasSubstr("floor 0 is not in"));
  EXPECT_THAT(refused([&](auto& p) { p.finite = clean; }), HasSubstr("finite is i64[]"));
}

}  // namespace
}  // namespace snug::ops
