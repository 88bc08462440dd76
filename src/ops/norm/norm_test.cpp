#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"
#include "ops/norm/layer_norm.h"
#include "ops/norm/rms_norm.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(RmsNorm, Checks) { check_op(rms_norm_def); }
TEST(RmsNorm, ResidualChecks) { check_op(residual_rms_norm_def); }
TEST(LayerNorm, Checks) { check_op(layer_norm_def); }
TEST(LayerNorm, ResidualChecks) { check_op(residual_layer_norm_def); }

TEST(RmsNorm, RecomputeGradChecks) { check_op(rms_norm_recompute_grad_def); }
TEST(LayerNorm, RecomputeGradChecks) { check_op(layer_norm_recompute_grad_def); }

TEST(Norm, ChecksInHalves) {
  for (const OpDef* def :
       {&rms_norm_def, &residual_rms_norm_def, &layer_norm_def, &residual_layer_norm_def}) {
    check_op_in_halves(*def);
  }
}

RefTensor normal(const Type& type, uint64_t seed) {
  RefTensor t{type, std::vector<double>(static_cast<size_t>(type.shape.elements()))};
  for (size_t i = 0; i < t.v.size(); ++i) t.v[i] = normal_pair(seed, i)[0];
  return t;
}

// What recompute relies on when it keeps the sum alone.
TEST(Norm, StoredSumMatchesResidualForm) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    const Type stream{dtype, {9, 77}};
    const RefTensor w = normal({dtype, {77}}, 5);
    const Attrs attrs{{"eps", 1e-5}};
    const auto both =
        run_op(residual_layer_norm_def, {normal(stream, 3), normal(stream, 4), w, w}, attrs);
    const auto again = run_op(layer_norm_def, {both[0], w, w}, attrs);
    for (size_t i = 0; i < again.size(); ++i) EXPECT_EQ(again[i].v, both[i + 1].v) << i;
  }
}

// The recomputed y has the forward's bits, and the gradients those of the plain backward op.
TEST(Norm, RecomputesTheSameBits) {
  for (const Dtype dtype : {Dtype::f32, Dtype::bf16, Dtype::f16}) {
    const Type stream{dtype, {9, 77}};
    const RefTensor x = normal(stream, 3), dy = normal(stream, 4), dx = normal(stream, 5);
    const RefTensor w = normal({dtype, {77}}, 6), bias = normal({dtype, {77}}, 7);
    const auto expect_same = [&](const OpDef& def, const std::vector<RefTensor>& inputs,
                                 std::vector<RefTensor> backward, std::vector<RefTensor> more) {
      const auto forward = run_op(def, inputs, {{"eps", 1e-5}});
      backward.insert(backward.end(), forward.begin() + 1, forward.end());
      backward.insert(backward.end(), {dy, dx});
      const auto plain = run_op(*def.fused_recompute->grad, backward);
      backward.resize(def.fused_recompute->grad->inputs.size());
      backward.insert(backward.end(), more.begin(), more.end());
      const auto recomputed = run_op(*def.fused_recompute->with, backward);
      for (size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(recomputed[i].v, plain[i].v) << i;
      EXPECT_EQ(recomputed.back().v, forward[0].v) << def.kind;
    };
    expect_same(rms_norm_def, {x, w}, {x, w}, {});
    expect_same(layer_norm_def, {x, w, bias}, {x, w}, {bias});
  }
}

// The sum over 600 rows, in bf16, is the sum in f32 rounded once; so is one with an accumulator.
TEST(Norm, ParameterGradientsAreRoundedOnce) {
  const Type type{Dtype::bf16, {600, 24}};
  const RefTensor x = normal(type, 3), dy = normal(type, 4), w = normal({Dtype::bf16, {24}}, 5);
  const RefTensor rstd = run_op(rms_norm_def, {x, w}, {{"eps", 1e-6}})[1];
  const RefTensor sum = normal({Dtype::bf16, {24}}, 6);
  const auto dweight = [&](const char* dtype, Dtype sum_dtype) {
    const RefTensor start = from_bytes(sum.type, to_bytes(sum).data());
    return run_op(rms_norm_grad_def,
                  {x, w, rstd, dy, absent(), {{sum_dtype, sum.shape()}, start.v}},
                  {{"grad_dtype", dtype}})[1];
  };
  const RefTensor wide = dweight("f32", Dtype::f32);
  EXPECT_EQ(wide.type.dtype, Dtype::f32);
  std::vector<double> rounded;
  for (double v : wide.v) rounded.push_back(Bf16(static_cast<float>(v)));
  EXPECT_EQ(dweight("bf16", Dtype::bf16).v, rounded);
  EXPECT_NE(wide.v, rounded);
}

TEST(Norm, SameBitsOnAnyNumberOfThreads) {
  const RefTensor x = normal({Dtype::f32, {131, 77}}, 3);
  const RefTensor w{{Dtype::f32, {77}}, std::vector<double>(77, 0.5)};
  const auto bits = [&] {
    const auto out = run_op(layer_norm_def, {x, w, w}, {{"eps", 1e-5}});
    const auto d = run_op(layer_norm_grad_def, {x, w, out[1], out[2], x});
    return std::vector{out[0].v, d[0].v, d[1].v, d[2].v};
  };
  EXPECT_TRUE(with_threads(1, bits) == with_threads(3, bits));
}

class NormFacts : public ::testing::Test {
 protected:
  ValueId input(const char* name, Shape shape) {
    return add_shared(module, name, {Dtype::f32, shape}, Category::inputs, Scope::step);
  }
  // The gradients of the last op's inputs, given those of its outputs.
  std::vector<ValueId> differentiate(std::vector<ValueId> output_grads) {
    const Op op = b.last();
    output_grads.resize(op.outputs.size());
    GradContext g(b, op, std::move(output_grads), std::vector<bool>(op.inputs.size(), true));
    op.def->grad(g);
    return g.input_grads();
  }

  Module module{.name = "norms"};
  Builder b{module, "step"};
  ValueId x = input("x", {4, 8}), delta = input("delta", {4, 8}), weight = input("w", {8});
  ValueId dh = input("dh", {4, 8}), dy = input("dy", {4, 8}), none;
};

TEST_F(NormFacts, ResidualBackwardIsOneOp) {
  const auto [h, y] = residual_rms_norm(b, "norm", {.x = x, .delta = delta, .weight = weight});
  const auto d = differentiate({dh, dy});
  EXPECT_EQ(b.program().ops.size(), 2U);
  EXPECT_EQ(b.last().def, &rms_norm_grad_def);
  EXPECT_EQ(b.last().inputs[0], h);
  EXPECT_EQ(b.last().inputs[static_cast<size_t>(rms_norm_grad_def.input_port("dx_sum"))], dh);
  EXPECT_EQ(d, (std::vector{b.last().outputs[0], b.last().outputs[0], b.last().outputs[1]}));
}

TEST_F(NormFacts, ResidualWithoutGradientIntoHAddsNothing) {
  residual_layer_norm(b, "norm", {.x = x, .delta = delta, .weight = weight, .bias = weight});
  differentiate({none, dy});
  EXPECT_EQ(b.last().inputs[static_cast<size_t>(layer_norm_grad_def.input_port("dx_sum"))], none);
}

TEST_F(NormFacts, ResidualWithoutGradientIntoYPassesOn) {
  residual_rms_norm(b, "norm", {.x = x, .delta = delta, .weight = weight});
  EXPECT_EQ(differentiate({dh, none}), (std::vector{dh, dh, none}));
  EXPECT_EQ(b.program().ops.size(), 1U);
}

TEST_F(NormFacts, RefusesWrongShapes) {
  const ValueId narrow = input("narrow", {7});
  const ValueId flat = input("flat", {32});
  EXPECT_THAT(refusal_of([&] { rms_norm(b, "a", {.x = x, .weight = narrow}); }),
              AllOf(HasSubstr("rms_norm 'a'"), HasSubstr("weight f32[7]"), HasSubstr("x f32[4,8]"),
                    HasSubstr("f32[8]")));
  EXPECT_THAT(refusal_of([&] { layer_norm(b, "b", {.x = x, .weight = weight, .bias = narrow}); }),
              HasSubstr("bias f32[7]"));
  EXPECT_THAT(
      refusal_of([&] { residual_rms_norm(b, "c", {.x = x, .delta = flat, .weight = weight}); }),
      HasSubstr("delta f32[32]"));
  EXPECT_THAT(refusal_of([&] { rms_norm(b, "d", {.x = input("scalar", {}), .weight = weight}); }),
              HasSubstr("no axis to normalise"));
}

TEST_F(NormFacts, RefusesWrongTypes) {
  const auto vector = [&](const char* name, Type type) {
    return add_shared(module, name, type, Category::inputs, Scope::step);
  };
  const ValueId half = vector("half", {Dtype::bf16, {8}});
  const ValueId rstd = vector("rstd", {Dtype::f32, {4}});
  EXPECT_THAT(refusal_of([&] { rms_norm(b, "a", {.x = x, .weight = half}); }),
              HasSubstr("weight bf16[8] does not match x f32[4,8]"));
  const auto backward = [&](ValueId statistic, ValueId sum, const char* dtype) {
    return refusal_of([&] {
      b.emit(rms_norm_grad_def, "g", {x, weight, statistic, dy, none, sum},
             {{"grad_dtype", dtype}});
    });
  };
  EXPECT_EQ(backward(rstd, half, "bf16"), "");
  EXPECT_THAT(backward(rstd, half, "f32"), HasSubstr("dweight_sum bf16[8] differs from"));
  EXPECT_THAT(backward(rstd, none, "i32"), HasSubstr("cannot be kept in 'i32'"));
  EXPECT_THAT(backward(half, none, "f32"), HasSubstr("rstd bf16[8] does not match"));
}

TEST_F(NormFacts, ScratchDependsOnShapesOnly) {
  rms_norm(b, "norm", {.x = x, .weight = weight});
  differentiate({dy});
  EXPECT_EQ(cost_of(module, b.last(), Backend::cpu).workspace, 4 * 8 * 4);  // 4 rows: 4 blocks
}

}  // namespace
}  // namespace snug::ops
