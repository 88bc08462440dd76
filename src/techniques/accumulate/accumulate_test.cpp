// Micro-batches: the copies are the first one but for what they add to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "models/model.h"
#include "passes/testing/two_layers.h"
#include "settings/parse.h"
#include "techniques/accumulate/accumulate.h"
#include "techniques/compress/compress.h"
#include "techniques/recompute/recompute.h"

namespace snug {
namespace {

// The module up to and with the pass.
Module accumulated(const ForwardBuilder& model, const Recipe& recipe) {
  Module module = with_backward(model, recipe);
  recompute(module, "micro_first", values_to_keep(module, "micro_first", recipe.recompute));
  eliminate_dead(module);
  if (recipe.compress != CompressKind::none) compress(module, "micro_first");
  accumulate(module, recipe);
  return module;
}

struct Added {
  int carried = 0;    // shared values that the copy adds to
  int otherwise = 0;  // any other difference: there must be none
};

// Is `next` what `first` is, given which local of the one is which of the other? An input that only
// `next` has must be the carried value that the same op's output is written to.
Added compare(const Module& module, const Program& first, const Program& next) {
  Added added;
  std::vector<ValueId> twin(module.values.size());
  auto same = [&](ValueId a, ValueId b) {
    if (!a.valid() || module[a].shared()) return a == b;
    return twin[static_cast<size_t>(a.index)] == b;
  };
  EXPECT_EQ(first.ops.size(), next.ops.size());
  for (size_t i = 0; i < std::min(first.ops.size(), next.ops.size()); ++i) {
    const Op &a = first.ops[i], &b = next.ops[i];
    const bool alike = a.def == b.def && a.name == b.name && a.attrs == b.attrs &&
                       a.layer == b.layer && a.phase == b.phase && a.clone_of == b.clone_of &&
                       a.inputs.size() == b.inputs.size() && same(a.predicate, b.predicate);
    added.otherwise += alike ? 0 : 1;
    for (size_t o = 0; o < a.outputs.size(); ++o) {
      const Value &va = module[a.outputs[o]], &vb = module[b.outputs[o]];
      added.otherwise += va.type == vb.type && va.category == vb.category ? 0 : 1;
      twin[static_cast<size_t>(a.outputs[o].index)] = b.outputs[o];
      added.otherwise += same(va.base, vb.base) ? 0 : 1;
    }
    for (size_t port = 0; port < std::min(a.inputs.size(), b.inputs.size()); ++port) {
      if (same(a.inputs[port], b.inputs[port])) continue;
      const bool sums =
          !a.inputs[port].valid() && module[b.inputs[port]].scope == Scope::step &&
          std::ranges::any_of(b.def->accumulate, [&](const Accumulate& fact) {
            const ValueId out = b.outputs[static_cast<size_t>(fact.output)];
            return fact.input == static_cast<int>(port) && module.root(out) == b.inputs[port];
          });
      ++(sums ? added.carried : added.otherwise);
    }
  }
  return added;
}

TEST(Accumulate, RepeatedBodyAddsOnlyAccumulatingWrites) {
  for (const char* policy : {"none", "full", "attention"}) {
    for (const CompressKind kind : {CompressKind::none, CompressKind::int8}) {
      SCOPED_TRACE(policy);
      const Module module = accumulated(
          two_attentions, {.accum = 3,
                           .recompute = parse_setting<RecomputePolicy>(policy, "recompute"),
                           .compress = kind,
                           .precision = Dtype::bf16,
                           .loss_scale = {.start = 256}});
      const Added added =
          compare(module, module.program("micro_first"), module.program("micro_next"));
      EXPECT_EQ(added.otherwise, 0);
      EXPECT_EQ(added.carried, 8 + 1) << "each parameter's gradient once, and the loss";
      expect_sound(module);
    }
  }
}

TEST(Accumulate, ComparisonDetectsDifferentOp) {
  Module module = accumulated(two_linears, {.accum = 2});
  module.program("micro_next").ops[1].attrs.set("tanh", false);
  EXPECT_EQ(compare(module, module.program("micro_first"), module.program("micro_next")).otherwise,
            1);
}

TEST(Accumulate, RunsFirstOnceAndRestRepeatedly) {
  using Step = std::vector<Repeat>;
  auto step = [](int64_t accum, bool in_backward) {
    Module module = with_backward(two_linears);
    accumulate(module, {.accum = accum, .update_in_backward = in_backward});
    return module.step;
  };
  const Repeat first{1, {"micro_first"}};
  EXPECT_EQ(step(1, false), (Step{first}));
  EXPECT_EQ(step(2, false), (Step{first, {1, {"micro_next"}}}));
  EXPECT_EQ(step(8, false), (Step{first, {7, {"micro_next"}}}));
  EXPECT_EQ(step(1, true), (Step{first}));
  EXPECT_EQ(step(2, true), (Step{first, {1, {"micro_last"}}}));
  EXPECT_EQ(step(8, true), (Step{first, {6, {"micro_next"}}, {1, {"micro_last"}}}));
}

// Every op that makes a parameter's gradient can add to it, in every type of gradients.
TEST(Accumulate, WorksForEveryFamily) {
  for (const char* name :
       {"gpt2", "bert-base", "qwen2.5-0.5b", "mlp:64x4", "qwen3-0.6b", "olmo2-1b", "gemma3-1b"}) {
    for (const Dtype grads : {Dtype::f32, Dtype::bf16}) {
      SCOPED_TRACE(name);
      const Module module =
          accumulated(Model::load(name).forward({.batch = 1, .seq = 16}),
                      {.accum = 2, .precision = Dtype::bf16, .grad_dtype = grads});
      EXPECT_EQ(
          compare(module, module.program("micro_first"), module.program("micro_next")).otherwise,
          0);
      EXPECT_NO_THROW(verify(module));
    }
  }
}

}  // namespace
}  // namespace snug
