// What backward adds: which gradients exist, where they are summed and in which type.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "passes/testing/two_layers.h"

namespace snug {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// The embedding table is also the head.
TEST(Autodiff, SharedWeightAccumulatesInSecondOp) {
  const Module module = with_backward(two_attentions);
  const Program& program = module.program("micro_first");
  EXPECT_THAT(kinds(program), Not(Contains("add")));
  const ValueId grad = module.find_shared("grad.embed.weight");
  ASSERT_TRUE(grad.valid());
  const auto both = writers(module, program, grad);
  ASSERT_EQ(both.size(), 2U);
  EXPECT_EQ(both[0]->name, "loss.grad");
  EXPECT_EQ(std::ranges::count(both[0]->inputs, grad), 0) << "the first use overwrites";
  EXPECT_EQ(both[1]->name, "embed.grad");
  EXPECT_EQ(both[1]->inputs.back(), both[0]->outputs.back()) << "the second adds to the first";
  expect_sound(module);
}

TEST(Autodiff, DoesNotDifferentiateTowardsInputs) {
  const Module module = with_backward(two_linears);
  const auto ops = kinds(module.program("micro_first"));
  EXPECT_EQ(std::ranges::count(ops, "linear_grad_input"), 1) << "only the second needs one";
  EXPECT_EQ(std::ranges::count(ops, "linear_grad_weight"), 2);
}

TEST(Autodiff, RefusesToLoseTheGradientOfAView) {
  Module module{.name = "view"};
  SharedValues shared(module);
  const ValueId w = shared.param("w", {8, 6}, Role::matrix);
  const ValueId x = shared.input("x", {Dtype::f32, {4, 6}});
  const ValueId targets = shared.input("targets", {Dtype::i32, {4}});
  Builder b(module, "p");
  const ValueId half = b.view(w, "half", {4, 6}, 24);
  const ValueId logits = ops::linear(b, "product", {.x = x, .weight = half});
  const ValueId loss = ops::cross_entropy(b, "loss", {.logits = logits, .targets = targets});
  try {
    autodiff(module, "p", {loss, logits});
    FAIL() << "nothing was refused";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), HasSubstr("reads 'half', a view of 'w'"));
  }
}

struct GradDtype {
  Dtype precision, grads;
};

class AutodiffGrads : public ::testing::TestWithParam<GradDtype> {};

// Each gradient is made in its own type by the op that makes it: no cast, and sums in that type.
TEST_P(AutodiffGrads, AreSummedInRequestedType) {
  const auto [precision, grads] = GetParam();
  for (const auto& model : {two_linears, two_attentions}) {
    const Module module = with_backward(model, {.precision = precision, .grad_dtype = grads});
    int made = 0;
    for (const Op& op : module.program("micro_first").ops) {
      if (op.phase != Phase::backward) continue;
      EXPECT_NE(op.def->kind, "cast") << op.name;
      for (size_t o = 0; o < op.outputs.size(); ++o) {
        const Value& value = module[op.outputs[o]];
        if (value.category != Category::grads) continue;
        ++made;
        EXPECT_EQ(value.type.dtype, grads) << value.name;
        EXPECT_EQ(value.type, module[module.root(op.outputs[o])].type) << value.name;
        EXPECT_EQ(op.attrs.has("grad_dtype"), grads != precision) << op.name;
      }
    }
    EXPECT_EQ(made, model == two_linears ? 4 : 9) << "every parameter, the tied one twice";
    expect_sound(module);
  }
}

INSTANTIATE_TEST_SUITE_P(
    Types, AutodiffGrads,
    ::testing::Values(GradDtype{Dtype::f32, Dtype::f32}, GradDtype{Dtype::f32, Dtype::bf16},
                      GradDtype{Dtype::bf16, Dtype::bf16}, GradDtype{Dtype::bf16, Dtype::f32},
                      GradDtype{Dtype::f16, Dtype::f32}, GradDtype{Dtype::f16, Dtype::f16}),
    [](const auto& p) {
      return fmt::format("{}_grads_{}", name_of(p.param.precision), name_of(p.param.grads));
    });

TEST(Autodiff, LossScaleScalesGradientsNotLoss) {
  for (const LossScale& scale :
       {LossScale{.start = 1024}, LossScale{.start = 1, .dynamic = true}}) {
    const Module module = with_backward(two_linears, {.loss_scale = scale});
    const Program& program = module.program("micro_first");
    const Op& scaled = find(program, "dloss.scaled");
    EXPECT_THAT(scaled.inputs, ::testing::ElementsAre(module.find_shared("dloss"),
                                                      module.find_shared("loss_scale")));
    const Value& value = module[module.find_shared("loss_scale")];
    EXPECT_EQ(value.scope, Scope::persistent);
    EXPECT_EQ(value.param->init, (Init{Init::Kind::constant, scale.start}));
    EXPECT_THAT(find(program, "loss.grad").inputs, Contains(scaled.outputs[0]));
    EXPECT_EQ(std::ranges::count_if(program.ops,
                                    [&](const Op& op) {
                                      return std::ranges::count(op.inputs,
                                                                module.find_shared("dloss")) > 0;
                                    }),
              1)
        << "no op reads the unscaled one";
    EXPECT_EQ(writers(module, program, module.find_shared("loss_sum")).at(0)->name, "loss");
    expect_sound(module);
  }
  EXPECT_FALSE(with_backward(two_linears).find_shared("loss_scale").valid());
}

}  // namespace
}  // namespace snug
