#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "ops/optimizer/adamw.h"
#include "ops/optimizer/clip.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using ::testing::HasSubstr;

TEST(AdamW, Checks) { check_op(adamw_def); }
TEST(SumSquares, Checks) { check_op(sum_squares_def); }
TEST(Clip, Checks) { check_op(clip_def); }
TEST(Advance, Checks) { check_op(advance_def); }

RefTensor vector(std::vector<double> v) {
  return {{Dtype::f32, {static_cast<int64_t>(v.size())}}, std::move(v)};
}
const Attrs kAdamW{{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};

// Whatever the gradient's size, the first step moves by lr against its sign, after the decay.
TEST(AdamW, FirstStepIsLrAgainstTheSign) {
  const auto out =
      run_op(adamw_def,
             {vector({1, 1, 1}), vector({1e-3, -50, 0}), vector({0, 0, 0}), vector({0, 0, 0}),
              scalar(Dtype::f32, 0.01), scalar(Dtype::i64, 1), scalar(Dtype::f32, 1)},
             kAdamW);
  const double decayed = 1 - 0.01 * 0.1;
  EXPECT_NEAR(out[0].v[0], decayed - 0.01, 1e-6);
  EXPECT_NEAR(out[0].v[1], decayed + 0.01, 1e-6);
  EXPECT_NEAR(out[0].v[2], decayed, 1e-7);
}

TEST(Clip, NonFiniteNormsTurnTheUpdateOff) {
  for (double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    const auto out = run_op(clip_def, {scalar(Dtype::f64, bad)}, {{"max_norm", 1.0}});
    EXPECT_FALSE(std::isfinite(out[0].v[0])) << bad;  // the norm of 1e300 is no float
    EXPECT_EQ(out[2].v[0], 0) << bad;
  }
}

TEST(Optimizer, SameBitsOnAnyNumberOfThreads) {
  RefTensor x = vector(std::vector<double>(200'001));
  for (size_t i = 0; i < x.v.size(); ++i) x.v[i] = unit_float(philox(5, i)[0]);
  const auto bits = [&] {
    auto out = run_op(
        adamw_def,
        {x, x, x, x, scalar(Dtype::f32, 0.01), scalar(Dtype::i64, 3), scalar(Dtype::f32, 0.5)},
        kAdamW);
    return std::make_pair(out[0].v, run_op(sum_squares_def, {x, vector({1, 2}), x})[0].v);
  };
  EXPECT_TRUE(with_threads(1, bits) == with_threads(3, bits));
}

class OptimizerFacts : public ::testing::Test {
 protected:
  ValueId value(const char* name, Dtype dtype, Shape shape) {
    return add_shared(module, name, {dtype, shape}, Category::optimizer, Scope::persistent);
  }
  Module module{.name = "optimizer"};
  Builder b{module, "update"};
  ValueId p = value("p", Dtype::f32, {3, 4}), g = value("g", Dtype::f32, {3, 4});
  ValueId m = value("m", Dtype::f32, {3, 4}), v = value("v", Dtype::f32, {3, 4});
  ValueId lr = value("lr", Dtype::f32, {}), step = value("step", Dtype::i64, {});
};

TEST_F(OptimizerFacts, UpdatesInPlaceUnderThePredicate) {
  const Clip c = clip(b, "clip", sum_squares(b, "norm", {g}), 1.0);
  const ValueId next = advance(b, "count", step, c.finite);
  EXPECT_EQ(module[next].base, step);
  EXPECT_EQ(b.last().predicate, c.finite);
  adamw(b, "p.adamw",
        {.param = p, .grad = g, .m = m, .v = v, .lr = lr, .step = next, .scale = c.scale},
        c.finite);
  const Op& op = b.last();
  EXPECT_EQ(op.predicate, c.finite);
  EXPECT_EQ(module[op.outputs[0]].base, p);
  EXPECT_EQ(module[op.outputs[1]].base, m);
  EXPECT_EQ(module[op.outputs[2]].base, v);
}

TEST_F(OptimizerFacts, RefusesWrongTypes) {
  EXPECT_THAT(refusal_of([&] {
                adamw(
                    b, "a",
                    {.param = p, .grad = lr, .m = m, .v = v, .lr = lr, .step = step, .scale = lr});
              }),
              HasSubstr("adamw 'a': grad is f32[], not f32[3,4]"));
  EXPECT_THAT(refusal_of([&] {
                adamw(b, "a",
                      {.param = p, .grad = g, .m = m, .v = v, .lr = lr, .step = lr, .scale = lr});
              }),
              HasSubstr("step is f32[], not i64[]"));
  EXPECT_THAT(refusal_of([&] { sum_squares(b, "s", {}); }), HasSubstr("no gradients"));
  EXPECT_THAT(refusal_of([&] { sum_squares(b, "s", {g, step}); }), HasSubstr("f32 and i64"));
  EXPECT_THAT(refusal_of([&] { clip(b, "c", lr, 1.0); }), HasSubstr("sum_squares is f32[]"));
  EXPECT_THAT(refusal_of([&] { advance(b, "n", lr); }), HasSubstr("the counter is f32[]"));
}

}  // namespace
}  // namespace snug::ops
