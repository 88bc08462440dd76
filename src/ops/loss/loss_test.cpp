#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;

TEST(CrossEntropy, Checks) { check_op(cross_entropy_def); }
TEST(LinearCrossEntropy, Checks) { check_op(linear_cross_entropy_def); }

TEST(LinearCrossEntropy, SamplesReachBothBackwardOps) {
  EXPECT_THAT(
      kinds_reached(linear_cross_entropy_def),
      ::testing::IsSupersetOf({"linear_cross_entropy_grad", "linear_bias_cross_entropy_grad"}));
}

RefTensor noise(Shape shape, uint64_t key) {
  RefTensor t{{Dtype::f32, shape}, std::vector<double>(static_cast<size_t>(shape.elements()))};
  for (size_t i = 0; i < t.v.size(); ++i) t.v[i] = normal_pair(key, i)[0];
  return t;
}
RefTensor targets(std::vector<double> v) {
  return {{Dtype::i32, {static_cast<int64_t>(v.size())}}, std::move(v)};
}
RefTensor some_targets(int64_t n) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<double>(i % 5 - 1));
  return targets(std::move(v));
}

TEST(CrossEntropy, EvenLogitsCostLogV) {
  const RefTensor logits{{Dtype::f32, {2, 4}}, std::vector<double>(8, 3.0)};
  EXPECT_FLOAT_EQ(static_cast<float>(run_op(cross_entropy_def, {logits, targets({0, 3})})[0].v[0]),
                  2 * std::log(4.0F));
}

TEST(CrossEntropy, LargeLogitsStayFinite) {
  const RefTensor logits{{Dtype::f32, {1, 3}}, {1000, -1000, 900}};
  EXPECT_EQ(run_op(cross_entropy_def, {logits, targets({0})})[0].v[0], 0);
  EXPECT_FLOAT_EQ(static_cast<float>(run_op(cross_entropy_def, {logits, targets({1})})[0].v[0]),
                  2000);
}

TEST(CrossEntropy, UncountedRowsGiveNoLossAndNoGradient) {
  const RefTensor logits = noise({2, 7}, 1);
  const auto out = run_op(cross_entropy_def, {logits, targets({-1, -100})});
  EXPECT_EQ(out[0].v[0], 0);
  const auto d =
      run_op(cross_entropy_grad_def, {logits, out[1], targets({-1, -100}), scalar(Dtype::f32, 1)});
  EXPECT_THAT(d[0].v, Each(0));
}

TEST(CrossEntropy, TargetBeyondTheVocabularyIsNan) {
  const RefTensor x = noise({1, 4}, 1);
  const RefTensor weight = noise({7, 4}, 2);
  EXPECT_TRUE(std::isnan(run_op(cross_entropy_def, {noise({1, 7}, 1), targets({7})})[0].v[0]));
  EXPECT_TRUE(std::isnan(
      run_op(linear_cross_entropy_def, {x, weight, targets({7})}, {{"chunk", 4}})[0].v[0]));
}

TEST(LinearCrossEntropy, ChunksDoNotChangeTheLoss) {
  const std::vector<RefTensor> inputs{noise({50, 16}, 1), noise({91, 16}, 2), some_targets(50),
                                      scalar(Dtype::f32, 0.02)};
  const auto whole = run_op(linear_cross_entropy_grad_def, inputs, {{"chunk", 50}});
  for (int64_t chunk : {1, 7, 49, 1000}) {
    const auto out = run_op(linear_cross_entropy_grad_def, inputs, {{"chunk", chunk}});
    EXPECT_NEAR(out[0].v[0], whole[0].v[0], 1e-5 * whole[0].v[0]) << "chunk " << chunk;
    for (size_t i = 0; i < out[2].v.size(); ++i)
      ASSERT_NEAR(out[2].v[i], whole[2].v[i], 1e-6) << "chunk " << chunk;
  }
}

TEST(Loss, SameBitsOnAnyNumberOfThreads) {
  const RefTensor logits = noise({33, 4099}, 3);
  const auto bits = [&] {
    auto out = run_op(cross_entropy_def, {logits, some_targets(33)});
    return std::make_pair(out[0].v,
                          run_op(cross_entropy_grad_def,
                                 {logits, out[1], some_targets(33), scalar(Dtype::f32, 0.1)})[0]
                              .v);
  };
  EXPECT_TRUE(with_threads(1, bits) == with_threads(3, bits));
}

class LossFacts : public ::testing::Test {
 protected:
  ValueId input(const char* name, Dtype dtype, Shape shape) {
    return add_shared(module, name, {dtype, shape}, Category::inputs, Scope::step);
  }
  Module module{.name = "losses"};
  Builder b{module, "step"};
  ValueId x = input("x", Dtype::f32, {2, 3, 8}), weight = input("weight", Dtype::f32, {11, 8});
  ValueId to = input("to", Dtype::i32, {2, 3});
};

TEST_F(LossFacts, LogitsOfOneChunkAreTheScratch) {
  const auto scratch = [&](int64_t chunk) {
    linear_cross_entropy(b, "loss", {.x = x, .weight = weight, .targets = to, .chunk = chunk});
    return cost_of(module, b.last(), Backend::cpu).workspace;
  };
  EXPECT_EQ(scratch(4), 256 + 4 * 11 * 4);   // 4 losses, rounded up to 256, and 4 x 11 logits
  EXPECT_EQ(scratch(6), 256 + 6 * 11 * 4);   // 6 x 11 logits
  EXPECT_EQ(scratch(99), 256 + 6 * 11 * 4);  // no more than there are rows
}

TEST_F(LossFacts, BackwardReplacesForward) {
  const ValueId loss = linear_cross_entropy(b, "loss", {.x = x, .weight = weight, .targets = to});
  const Op op = b.last();
  GradContext g(b, op, {input("dloss", Dtype::f32, {})}, {true, true, false});
  op.def->grad(g);
  EXPECT_EQ(b.last().def, &linear_cross_entropy_grad_def);
  EXPECT_EQ(g.replacements()[0], b.last().outputs[0]);
  EXPECT_EQ(module[g.replacements()[0]].type, module[loss].type);
}

TEST_F(LossFacts, RefusesWrongShapes) {
  const ValueId wrong = input("wrong", Dtype::i32, {6});
  const ValueId narrow = input("narrow", Dtype::f32, {11, 7});
  EXPECT_THAT(refusal_of([&] { cross_entropy(b, "a", {.logits = x, .targets = wrong}); }),
              AllOf(HasSubstr("cross_entropy 'a'"), HasSubstr("i32[6]"), HasSubstr("i32[2,3]")));
  EXPECT_THAT(refusal_of([&] { cross_entropy(b, "a", {.logits = x, .targets = x}); }),
              HasSubstr("f32[2,3,8]"));
  EXPECT_THAT(
      refusal_of([&] { linear_cross_entropy(b, "b", {.x = x, .weight = narrow, .targets = to}); }),
      HasSubstr("do not multiply"));
  EXPECT_THAT(refusal_of([&] {
                linear_cross_entropy(b, "c",
                                     {.x = x, .weight = weight, .targets = to, .bias = narrow});
              }),
              AllOf(HasSubstr("bias"), HasSubstr("f32[11]")));
  EXPECT_THAT(refusal_of([&] {
                linear_cross_entropy(b, "d", {.x = x, .weight = weight, .targets = to, .chunk = 0});
              }),
              HasSubstr("a chunk of 0 tokens"));
}

}  // namespace
}  // namespace snug::ops
