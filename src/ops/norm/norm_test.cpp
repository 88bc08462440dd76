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

TEST(Norm, SameBitsOnAnyNumberOfThreads) {
  RefTensor x{{Dtype::f32, {131, 77}}, std::vector<double>(131 * 77)};
  for (size_t i = 0; i < x.v.size(); ++i) x.v[i] = normal_pair(3, i)[0];
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

TEST_F(NormFacts, ScratchDependsOnShapesOnly) {
  rms_norm(b, "norm", {.x = x, .weight = weight});
  differentiate({dy});
  EXPECT_EQ(cost_of(module, b.last(), Backend::cpu).workspace, 4 * 8 * 4);  // 4 rows: 4 blocks
}

}  // namespace
}  // namespace snug::ops
