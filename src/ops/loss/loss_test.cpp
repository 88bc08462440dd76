#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/rng.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/loss/linear_cross_entropy_cuda.h"
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
TEST(CrossEntropy, ChecksInHalves) { check_op_in_halves(cross_entropy_def); }

// In one chunk; ChunksInHalves looks at several, where a dweight of two bytes is rounded once for
// each.
TEST(LinearCrossEntropy, ChecksInHalves) {
  OpDef in_one_chunk = linear_cross_entropy_def;
  in_one_chunk.samples = [] {
    std::vector<Sample> samples = linear_cross_entropy_def.samples();
    for (Sample& s : samples) s.attrs.set("chunk", 1024);
    return samples;
  };
  check_op_in_halves(in_one_chunk);
}

TEST(LinearCrossEntropy, SamplesReachBothBackwardOps) {
  EXPECT_THAT(
      kinds_reached(linear_cross_entropy_def),
      ::testing::IsSupersetOf({"linear_cross_entropy_grad", "linear_bias_cross_entropy_grad"}));
}

RefTensor noise(Shape shape, uint64_t key, Dtype dtype = Dtype::f32) {
  RefTensor t{{dtype, shape}, std::vector<double>(static_cast<size_t>(shape.elements()))};
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

TEST(Loss, SameBitsInHalvesOnAnyNumberOfThreads) {
  const std::vector<RefTensor> inputs{noise({90, 70}, 1, Dtype::bf16),
                                      noise({1100, 70}, 2, Dtype::bf16),
                                      some_targets(90),
                                      scalar(Dtype::f32, 0.02),
                                      absent(),
                                      absent(),
                                      absent(),
                                      noise({1100}, 3, Dtype::bf16)};
  const auto bits = [&] {
    std::vector<std::vector<double>> numbers;
    for (const RefTensor& t : run_op(linear_bias_cross_entropy_grad_def, inputs, {{"chunk", 40}})) {
      numbers.push_back(t.v);
    }
    return numbers;
  };
  const auto alone = with_threads(1, bits);
  EXPECT_EQ(alone.size(), 4);
  EXPECT_TRUE(with_threads(3, bits) == alone);
}

// |got - want| within so many roundings of `dtype`, and a little for the order of fp32 sums.
void expect_within(const RefTensor& got, const RefTensor& want, double roundings) {
  const double half_unit = got.type.dtype == Dtype::bf16  ? 0x1p-8
                           : got.type.dtype == Dtype::f16 ? 0x1p-11
                                                          : 0;
  double largest = 0;
  for (double v : want.v) largest = std::max(largest, std::abs(v));
  ASSERT_EQ(got.v.size(), want.v.size());
  for (size_t i = 0; i < want.v.size(); ++i) {
    ASSERT_NEAR(got.v[i], want.v[i], (roundings * half_unit + 2e-6) * largest) << i;
  }
}

TEST(LinearCrossEntropy, ChunksInHalves) {
  for (const Dtype dtype : {Dtype::bf16, Dtype::f16}) {
    for (const bool wide : {false, true}) {
      const std::vector<RefTensor> inputs{noise({50, 16}, 1, dtype),
                                          noise({91, 16}, 2, dtype),
                                          some_targets(50),
                                          scalar(Dtype::f32, 0.02),
                                          absent(),
                                          absent(),
                                          absent(),
                                          noise({91}, 3, dtype)};
      const auto in_chunks_of = [&](int64_t chunk) {
        Attrs attrs{{"chunk", chunk}};
        if (wide) attrs.set("grad_dtype", "f32");
        return run_op(linear_bias_cross_entropy_grad_def, inputs, attrs);
      };
      const auto whole = in_chunks_of(50);
      const auto chunks = in_chunks_of(13);
      EXPECT_EQ(whole[2].type.dtype, wide ? Dtype::f32 : dtype);
      expect_within(chunks[0], whole[0], 0);  // loss
      expect_within(chunks[1], whole[1], 1);  // dx: at most a neighbour, where fp32 sums differ
      expect_within(chunks[2], whole[2], 4);  // dweight: once per chunk
      expect_within(chunks[3], whole[3], 1);  // dbias: once
    }
  }
}

// A gradient that grew by one chunk at a time in bf16 would stop growing.
TEST(LinearCrossEntropy, BiasGradientInHalvesIsRoundedOnce) {
  constexpr int64_t kRows = 2000;
  const std::vector<RefTensor> inputs{{{Dtype::bf16, {kRows, 1}}, std::vector<double>(kRows, 0)},
                                      {{Dtype::bf16, {4, 1}}, std::vector<double>(4, 0)},
                                      {{Dtype::i32, {kRows}}, std::vector<double>(kRows, 0)},
                                      scalar(Dtype::f32, 1),
                                      absent(),
                                      absent(),
                                      absent(),
                                      {{Dtype::bf16, {4}}, std::vector<double>(4, 0)}};
  const auto out = run_op(linear_bias_cross_entropy_grad_def, inputs, {{"chunk", 1}});
  EXPECT_THAT(out[3].v, ::testing::ElementsAre(-1504, 500, 500, 500));  // bf16 of -1500
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

TEST_F(LossFacts, HalvesHoldOneChunkOfLogitsToo) {
  const ValueId tokens = input("tokens", Dtype::bf16, {4096, 64});
  const ValueId head = input("head", Dtype::bf16, {50000, 64});
  const ValueId next = input("next", Dtype::i32, {4096});
  constexpr int64_t kChunk = 128, kLogits = kChunk * 50000 * 4;
  linear_cross_entropy(b, "loss", {.x = tokens, .weight = head, .targets = next, .chunk = kChunk});
  const Op forward = b.last();
  GradContext g(b, forward, {input("dloss", Dtype::f32, {})}, {true, true, false});
  forward.def->grad(g);
  for (const Op& op : {forward, Op(b.last())}) {
    const int64_t scratch = cost_of(module, op, Backend::cpu).workspace;
    EXPECT_GT(scratch, kLogits);
    EXPECT_LT(scratch, kLogits + (1 << 20)) << op.def->kind;  // 1 MiB: widened blocks
  }
}

TEST_F(LossFacts, CudaLogitsHaveTypeOfX) {
  const ValueId tokens = input("tokens", Dtype::bf16, {4096, 64});
  const ValueId head = input("head", Dtype::bf16, {50000, 64});
  const ValueId next = input("next", Dtype::i32, {4096});
  linear_cross_entropy(b, "loss", {.x = tokens, .weight = head, .targets = next, .chunk = 128});
  constexpr int64_t kRow = 100'096;  // 50000 of them, rounded up to 128 bytes
  constexpr int64_t kLosses = 4096 * 8, kLogits = 128 * kRow, kMatmul = 32 << 20;
  EXPECT_EQ(cost_of(module, b.last(), Backend::cuda).workspace, kLosses + kLogits + kMatmul);
}

TEST_F(LossFacts, CudaLogitRowsStartOn128Bytes) {
  const auto stride = [](int64_t V, Dtype dtype) {
    return cuda_logits_stride({.V = V, .dtype = dtype});
  };
  EXPECT_EQ(stride(151'936, Dtype::bf16), 151'936);
  EXPECT_EQ(stride(32'000, Dtype::f32), 32'000);
  EXPECT_EQ(stride(50'257, Dtype::bf16), 50'304);
  EXPECT_EQ(stride(50'257, Dtype::f32), 50'272);
  EXPECT_EQ(stride(30'522, Dtype::f16), 30'528);
  EXPECT_EQ(stride(1, Dtype::f32), 32);
}

TEST_F(LossFacts, LogitsNeedExactInputs) {
  EXPECT_THAT(cross_entropy_def.exact, ::testing::ElementsAre(0));
  EXPECT_THAT(cross_entropy_grad_def.exact, ::testing::ElementsAre(0, 1));
  for (const OpDef* def : {&linear_cross_entropy_def, &linear_cross_entropy_grad_def,
                           &linear_bias_cross_entropy_grad_def}) {
    EXPECT_THAT(def->exact, ::testing::ElementsAre(0)) << def->kind;
  }
}

TEST_F(LossFacts, RefusesMixedTypes) {
  const ValueId half = input("half", Dtype::bf16, {2, 3, 8});
  const ValueId half_weight = input("half_weight", Dtype::bf16, {11, 8});
  const ValueId dloss = input("dloss", Dtype::bf16, {});
  const ValueId one = input("one", Dtype::f32, {});
  const ValueId bias = input("bias", Dtype::f32, {11});
  const auto refusal = [&](const OpDef& def, std::vector<ValueId> inputs) {
    return refusal_of([&] { b.emit(def, "a", std::move(inputs), {{"chunk", 4}}); });
  };
  EXPECT_THAT(refusal(linear_cross_entropy_def, {half, weight, to}),
              HasSubstr("x bf16[2,3,8] and weight f32[11,8] do not multiply"));
  EXPECT_THAT(refusal(linear_cross_entropy_def, {half, half_weight, to, bias}),
              HasSubstr("bias is f32[11], not bf16[11]"));
  EXPECT_THAT(refusal(linear_cross_entropy_grad_def, {half, half_weight, to, dloss}),
              HasSubstr("dloss is bf16[], not f32[]"));
  EXPECT_THAT(refusal(linear_cross_entropy_grad_def, {half, half_weight, to, one, {}, {}, weight}),
              HasSubstr("dweight_sum is f32[11,8], not bf16[11,8]"));
  EXPECT_THAT(refusal(cross_entropy_grad_def, {half, input("lse", Dtype::bf16, {6}), to, one}),
              HasSubstr("lse is bf16[6], not f32[6]"));
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
