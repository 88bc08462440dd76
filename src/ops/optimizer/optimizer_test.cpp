// Norm, clipping, the step count and the loss scale; update_test.cpp has the methods.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/rng.h"
#include "ops/optimizer/clip.h"
#include "ops/optimizer/loss_scale.h"
#include "ops/optimizer/sum_blocks.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using ::testing::HasSubstr;

RefTensor sums_of_squares(std::vector<double> blocks) {
  return {{Dtype::f64, {static_cast<int64_t>(blocks.size())}}, std::move(blocks)};
}

TEST(SumSquares, Checks) {
  check_op(sum_squares_def);
  check_op_in_halves(sum_squares_def);
}
TEST(Clip, Checks) { check_op(clip_def); }
TEST(Advance, Checks) { check_op(advance_def); }
TEST(AdjustLossScale, Checks) { check_op(adjust_loss_scale_def); }

TEST(Clip, NonFiniteNormsTurnTheUpdateOff) {
  for (double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN(), 1e300}) {
    const auto out =
        run_op(clip_def, {absent(), absent(), sums_of_squares({1, bad, 2})}, {{"max_norm", 1.0}});
    EXPECT_FALSE(std::isfinite(out[0].v[0])) << bad;  // the norm of 1e300 is no float
    EXPECT_EQ(out[2].v[0], 0) << bad;
  }
}

TEST(Clip, NonFiniteLossTurnsOnlyTheUpdateOff) {
  for (double bad :
       {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    const auto out = run_op(clip_def, {absent(), scalar(Dtype::f32, bad), sums_of_squares({25})},
                            {{"max_norm", 1.0}});
    EXPECT_EQ(out[0].v[0], 5) << bad;
    EXPECT_EQ(out[2].v[0], 0) << bad;
  }
}

TEST(Clip, LossScaleIsDividedOut) {
  const auto out =
      run_op(clip_def,
             {scalar(Dtype::f32, 8), absent(), sums_of_squares({60, 4}), sums_of_squares({1536})},
             {{"max_norm", 2.5}});
  EXPECT_EQ(out[0].v[0], 5);  // sqrt(1600) / 8
  EXPECT_NEAR(out[1].v[0], 0.5 / 8, 1e-7);
  EXPECT_EQ(out[2].v[0], 1);
}

RefTensor gradient(Dtype dtype, int64_t elements) {
  RefTensor x{{dtype, {elements}}, std::vector<double>(static_cast<size_t>(elements))};
  for (size_t i = 0; i < x.v.size(); ++i) x.v[i] = unit_float(philox(5, i)[0]);
  return x;
}

// Elements [begin, end) of `x`, or those up to its end.
RefTensor part_of(const RefTensor& x, int64_t begin, int64_t end) {
  end = std::min(end, x.shape().elements());
  return {{x.type.dtype, {end - begin}}, {x.v.begin() + begin, x.v.begin() + end}};
}

std::vector<double> block_sums(const RefTensor& grad) {
  return run_op(sum_squares_def, {grad})[0].v;
}

TEST(SumSquares, SameBitsOnAnyNumberOfThreads) {
  const RefTensor x = gradient(Dtype::f32, 3 * kSumBlock + 201);
  const auto bits = [&] { return block_sums(x); };
  EXPECT_TRUE(with_threads(1, bits) == with_threads(3, bits));
}

TEST(SumSquares, BlockSumIgnoresGradientCuts) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    const RefTensor x = gradient(dtype, 5 * kSumBlock + 77);
    for (const int64_t blocks : {1, 2, 3}) {
      std::vector<double> sums;
      for (int64_t at = 0; at < x.shape().elements(); at += blocks * kSumBlock)
        for (double sum : block_sums(part_of(x, at, at + blocks * kSumBlock))) sums.push_back(sum);
      EXPECT_TRUE(sums == block_sums(x)) << name_of(dtype) << ", " << blocks << " blocks at once";
    }
  }
}

// Sums that are no squares, and so different that any other order is seen: each is taken away again,
// and what remains is the last one, and roundings.
TEST(Clip, AddsBlocksInFixedOrder) {
  std::vector<double> blocks;
  for (uint64_t i = 0; i < kClipSlots + 99; ++i) {
    const auto bits = philox(7, i);
    blocks.push_back(std::ldexp(unit_float(bits[0]) - 0.5, static_cast<int>(bits[1] % 90)));
  }
  for (size_t i = blocks.size(); i > 0; --i) blocks.push_back(-blocks[i - 1]);
  blocks.push_back(0x1p48);
  const auto norm = [](const std::vector<RefTensor>& squares) {
    std::vector<RefTensor> inputs{absent(), absent()};
    inputs.insert(inputs.end(), squares.begin(), squares.end());
    return run_op(clip_def, inputs, {{"max_norm", 0.0}})[0].v[0];
  };
  const RefTensor whole = sums_of_squares(blocks);
  for (const int64_t size : {1, 7, 1000}) {
    std::vector<RefTensor> cut;
    for (int64_t at = 0; at < whole.shape().elements(); at += size)
      cut.push_back(part_of(whole, at, at + size));
    EXPECT_EQ(norm(cut), norm({whole})) << size << " blocks of each gradient";
  }
  std::ranges::reverse(blocks);
  EXPECT_NE(norm({sums_of_squares(blocks)}), norm({whole}));
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
  const Clip c = clip(b, "clip", {sum_squares(b, "g", g), sum_squares(b, "h", h)}, 1.0, real);
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
  EXPECT_THAT(refusal_of([&] { sum_squares(b, "s", count); }), HasSubstr("i64[] is no gradient"));
  EXPECT_THAT(refusal_of([&] { clip(b, "c", {real}, 1.0); }), HasSubstr("sum_squares is f32[]"));
  EXPECT_THAT(refusal_of([&] { clip(b, "c", {}, 1.0); }), HasSubstr("no sum of squares"));
  const ValueId sum = sum_squares(b, "s", g);
  EXPECT_THAT(refusal_of([&] { clip(b, "c", {sum}, 1.0, count); }),
              HasSubstr("loss_scale is i64[], not f32[]"));
  EXPECT_THAT(refusal_of([&] { clip(b, "c", {sum}, 1.0, real, count); }),
              HasSubstr("loss is i64[], not f32[]"));
  EXPECT_THAT(refusal_of([&] { advance(b, "n", real); }), HasSubstr("the counter is f32[]"));
}

TEST_F(OptimizerProgram, RefusesBadLossScales) {
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
