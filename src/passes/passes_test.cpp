// Each pass on programs small enough to reason about; golden texts of whole compiles stand in
// tests/golden.
#include "passes/passes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "ir/builder.h"
#include "ops/activation/gelu.h"
#include "ops/linear/linear.h"
#include "ops/loss/cross_entropy.h"

namespace snug {
namespace {

using ::testing::Contains;
using ::testing::Not;

// x -> linear(w) -> gelu -> linear(w again) -> loss: a weight with two uses.
Forward tied_pair(Module& module, std::string_view program, bool) {
  auto shared = [&](const char* name, Type type, Category category, Scope scope) {
    const ValueId found = module.find_shared(name);
    return found.valid() ? found
                         : add_shared(module, name, type, category, scope, {.role = Role::matrix});
  };
  const ValueId x = shared("x", {Dtype::f32, {4, 6}}, Category::inputs, Scope::step);
  const ValueId targets = shared("targets", {Dtype::i32, {4}}, Category::inputs, Scope::step);
  const ValueId w = shared("w", {Dtype::f32, {6, 6}}, Category::params, Scope::persistent);
  Builder b(module, program);
  const ValueId hidden = ops::gelu(b, "act", ops::linear(b, "first", {.x = x, .weight = w}), true);
  const ValueId logits = ops::linear(b, "second", {.x = hidden, .weight = w});
  return {ops::cross_entropy(b, "loss", {.logits = logits, .targets = targets}), logits};
}

std::vector<std::string> kinds(const Program& program) {
  std::vector<std::string> out;
  for (const Op& op : program.ops) out.emplace_back(op.def->kind);
  return out;
}

const Op& find(const Program& program, std::string_view name) {
  const auto at = std::find_if(program.ops.begin(), program.ops.end(),
                               [&](const Op& op) { return op.name == name; });
  if (at == program.ops.end()) throw internal_error("no op '{}'", name);
  return *at;
}

TEST(Autodiff, SumsTheGradientsOfASharedWeightInTheSecondOpsAccumulator) {
  Module module{.name = "tied"};
  autodiff(module, "micro_first", tied_pair(module, "micro_first", true));
  const Program& program = module.program("micro_first");
  EXPECT_THAT(kinds(program), Not(Contains("add")));
  const ValueId grad = module.find_shared("grad.w");
  ASSERT_TRUE(grad.valid());
  std::vector<const Op*> writers;
  for (const Op& op : program.ops) {
    for (ValueId out : op.outputs) {
      if (module.root(out) == grad) writers.push_back(&op);
    }
  }
  ASSERT_EQ(writers.size(), 2U);
  EXPECT_FALSE(writers[0]->inputs.back().valid()) << "the first use overwrites";
  EXPECT_EQ(writers[1]->inputs.back(), writers[0]->outputs[0]) << "the second adds to the first";
}

TEST(Autodiff, DoesNotDifferentiateTowardsInputs) {
  Module module{.name = "tied"};
  autodiff(module, "micro_first", tied_pair(module, "micro_first", true));
  int products_towards_activations = 0;
  for (const Op& op : module.program("micro_first").ops)
    products_towards_activations += op.def->kind == "linear_grad_input" ? 1 : 0;
  EXPECT_EQ(products_towards_activations, 1) << "only the second product's input needs a gradient";
}

TEST(Autodiff, RefusesToLoseTheGradientOfAView) {
  Module module{.name = "view"};
  const ValueId w = add_shared(module, "w", {Dtype::f32, {8, 6}}, Category::params,
                               Scope::persistent, {.role = Role::matrix});
  const ValueId x = add_shared(module, "x", {Dtype::f32, {4, 6}}, Category::inputs, Scope::step);
  const ValueId targets =
      add_shared(module, "targets", {Dtype::i32, {4}}, Category::inputs, Scope::step);
  Builder b(module, "p");
  const ValueId half = b.view(w, "half", {4, 6}, 24);
  const ValueId logits = ops::linear(b, "product", {.x = x, .weight = half});
  const ValueId loss = ops::cross_entropy(b, "loss", {.logits = logits, .targets = targets});
  try {
    autodiff(module, "p", {loss, logits});
    FAIL() << "nothing was refused";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("reads 'half', a view of 'w'"));
  }
}

TEST(Optimizer, LeavesFrozenParametersAlone) {
  Module module{.name = "frozen"};
  auto weight = [&](const char* name, bool trainable) {
    return add_shared(module, name, {Dtype::f32, {6, 6}}, Category::params, Scope::persistent,
                      {.role = Role::matrix, .trainable = trainable});
  };
  const ValueId x = add_shared(module, "x", {Dtype::f32, {4, 6}}, Category::inputs, Scope::step);
  const ValueId targets =
      add_shared(module, "targets", {Dtype::i32, {4}}, Category::inputs, Scope::step);
  const ValueId frozen = weight("frozen", false), trained = weight("trained", true);
  Builder b(module, "micro_first");
  const ValueId hidden = ops::linear(b, "first", {.x = x, .weight = trained});
  const ValueId logits = ops::linear(b, "second", {.x = hidden, .weight = frozen});
  autodiff(module, "micro_first",
           {ops::cross_entropy(b, "loss", {.logits = logits, .targets = targets}), logits});
  optimizer(module, {});
  EXPECT_TRUE(module.find_shared("grad.trained").valid());
  EXPECT_TRUE(module.find_shared("trained.m").valid());
  EXPECT_FALSE(module.find_shared("grad.frozen").valid());
  EXPECT_FALSE(module.find_shared("frozen.m").valid());
}

TEST(Accumulate, TheRepeatedBodyDiffersOnlyInTheAccumulatingWrites) {
  const Module module = compile("tied", tied_pair, {.accum = 3});
  const Program& first = module.program("micro_first");
  const Program& next = module.program("micro_next");
  EXPECT_EQ(kinds(first), kinds(next));
  const ValueId grad = module.find_shared("grad.w");
  EXPECT_EQ(find(next, "second.grad_weight").inputs.back(), grad);
  EXPECT_FALSE(find(first, "second.grad_weight").inputs.back().valid());
  EXPECT_EQ(module.step,
            (std::vector<Repeat>{{1, {"micro_first"}}, {2, {"micro_next"}}, {1, {"update"}}}));
}

TEST(Optimizer, RefusesAModelWithNothingToTrain) {
  Module module{.name = "empty"};
  EXPECT_THROW(optimizer(module, {}), Error);
}

TEST(InPlace, TakesOverBytesThatNobodyReadsAgain) {
  const Module module = compile("tied", tied_pair, {});
  // Evaluation keeps nothing for backward, so gelu works in place; training needs its input again.
  EXPECT_FALSE(module[find(module.program("eval"), "act").outputs[0]].owns_bytes());
  EXPECT_TRUE(module[find(module.program("micro_first"), "act").outputs[0]].owns_bytes());
}

TEST(EliminateDead, KeepsWritesToSharedValuesAndDropsTheRest) {
  Module module{.name = "dead"};
  const Forward forward = tied_pair(module, "eval", false);
  bind_loss(module, "eval", forward.loss);
  Builder b(module, "eval");
  ops::gelu(b, "unused", forward.logits, true);
  const size_t before = module.values.size();
  eliminate_dead(module);
  EXPECT_EQ(kinds(module.program("eval")),
            (std::vector<std::string>{"linear", "gelu", "linear", "cross_entropy"}));
  EXPECT_EQ(module.values.size(), before - 1);
}

}  // namespace
}  // namespace snug
