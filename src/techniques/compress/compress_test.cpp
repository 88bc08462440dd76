// What the pass stores as int8, where, and what it leaves alone. That models still learn is shown
// on whole runs in tests/e2e.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "models/model.h"
#include "ops/activation/gelu.h"
#include "ops/quantize/quantize.h"
#include "ops/registry.h"
#include "passes/passes.h"
#include "settings/parse.h"
#include "techniques/accumulate/accumulate.h"
#include "techniques/compress/compress.h"
#include "techniques/recompute/recompute.h"

namespace snug {
namespace {

using ::testing::ElementsAre;

// x -> a -> b -> c and back again: gelus whose backward op is `back`.
struct Chain {
  Module module{.name = "chain"};
  Builder b{module, "p"};
  ValueId x, a, dc;

  explicit Chain(Type type = {Dtype::f32, {8, 256}}, const OpDef& back = ops::gelu_grad_def) {
    x = add_shared(module, "x", type, Category::inputs, Scope::step);
    b.set_layer(0);
    a = ops::gelu(b, "a", x, true);
    b.set_layer(1);
    const ValueId b1 = ops::gelu(b, "b", a, true);
    const ValueId c = ops::gelu(b, "c", b1, true);
    b.set_phase(Phase::backward);
    dc = b.emit(back, "db", {b1, c}, {{"tanh", true}})[0];
    b.emit(back, "da", {a, dc}, {{"tanh", true}});
  }

  std::vector<std::string> compressed() {
    compress(module, "p");
    verify(module);
    std::vector<std::string> names;
    for (const Op& op : module.program("p").ops) names.push_back(op.name);
    return names;
  }
};

const std::vector<std::string> kAsItWas{"a", "b", "c", "db", "da"};

TEST(Compress, StoresAfterForwardRestoresBeforeBackward) {
  Chain chain;
  // b and c are read in backward as soon as forward is done with them: nothing to gain.
  EXPECT_THAT(chain.compressed(), ElementsAre("a", "b", "a.int8", "c", "db", "a.restored", "da"));
  const std::vector<Op>& ops = chain.module.program("p").ops;
  EXPECT_EQ(ops[2].phase, Phase::forward);
  EXPECT_EQ(ops[2].layer, 0) << "where the value belongs";
  EXPECT_EQ(ops[5].phase, Phase::backward);
  EXPECT_EQ(ops[6].inputs[0], ops[5].outputs[0]);
  for (const size_t at : {2, 5}) {
    for (ValueId id : ops[at].outputs) EXPECT_EQ(chain.module[id].category, Category::activations);
  }
}

TEST(Compress, RestoresOncePerReadingLayer) {
  Chain chain;
  const Attrs tanh{{"tanh", true}};
  chain.b.emit(ops::gelu_grad_def, "again", {chain.a, chain.dc}, tanh);
  chain.b.set_layer(0);
  chain.b.emit(ops::gelu_grad_def, "later", {chain.a, chain.dc}, tanh);
  EXPECT_THAT(chain.compressed(), ElementsAre("a", "b", "a.int8", "c", "db", "a.restored", "da",
                                              "again", "a.restored.2", "later"));
}

TEST(Compress, SkipsExactInputsOfBackward) {
  OpDef exact = ops::gelu_grad_def;
  exact.exact = {0};
  EXPECT_EQ(Chain({Dtype::f32, {8, 256}}, exact).compressed(), kAsItWas);
  exact.exact = {1};
  EXPECT_NE(Chain({Dtype::f32, {8, 256}}, exact).compressed(), kAsItWas) << "only that port";
}

TEST(Compress, SkipsSmallValues) {
  EXPECT_EQ(Chain({Dtype::f32, {1023}}).compressed(), kAsItWas);
  EXPECT_NE(Chain({Dtype::f32, {1024}}).compressed(), kAsItWas);
}

TEST(Compress, SkipsViewsAndBoundValues) {
  Chain viewed;
  viewed.b.view(viewed.a, "part", {256}, 0);
  EXPECT_EQ(viewed.compressed(), kAsItWas);

  Chain bound;
  const ValueId target = add_shared(bound.module, "carried", bound.module[bound.a].type,
                                    Category::activations, Scope::step);
  bound.module[bound.a].base = target;
  EXPECT_EQ(bound.compressed(), kAsItWas);
}

struct Compressed {
  int64_t values = 0;
  int64_t elements = 0;
  int64_t bytes = 0;  // of payload and scales
};

Compressed figures(const Module& module, std::string_view program) {
  Compressed sum;
  for (const Op& op : module.program(program).ops) {
    if (op.def != &ops::quantize_int8_def) continue;
    ++sum.values;
    sum.elements += module[op.inputs[0]].type.shape.elements();
    for (ValueId id : op.outputs) sum.bytes += module[id].type.bytes();
  }
  return sum;
}

// The step of a llama as far as compress and what follows it directly.
Module compressed(ops::AttentionKind attention, const char* policy = "none") {
  const Model model = Model::load("snug-tiny");
  Module module{.name = "llama"};
  const ForwardBuilder forward = model.forward({.batch = 4, .seq = 64, .attention = attention});
  autodiff(module, "micro_first", add_forward(module, forward, ProgramRole::training_first));
  eliminate_dead(module);
  recompute(
      module, "micro_first",
      values_to_keep(module, "micro_first", parse_setting<RecomputePolicy>(policy, "recompute")));
  eliminate_dead(module);
  compress(module, "micro_first");
  accumulate(module, {.accum = 2});
  verify(module);
  return module;
}

class CompressModel : public ::testing::TestWithParam<ops::AttentionKind> {};

TEST_P(CompressModel, UsesAtMost52PercentOfBf16) {
  const Module module = compressed(GetParam());
  const Compressed sum = figures(module, "micro_first");
  EXPECT_GE(sum.values, 6 * 4) << "several per layer";
  EXPECT_LE(static_cast<double>(sum.bytes), 0.52 * 2 * static_cast<double>(sum.elements));
  EXPECT_LE(static_cast<double>(sum.bytes), 0.265 * 4 * static_cast<double>(sum.elements));
}

TEST_P(CompressModel, IsSoundWithEveryRecompute) {
  for (const char* policy : {"none", "attention", "every:2", "full"}) {
    SCOPED_TRACE(policy);
    const Module module = compressed(GetParam(), policy);
    const std::string text = print(module);
    EXPECT_EQ(print(parse(text, ops::registry())), text);
    EXPECT_EQ(figures(module, "micro_next").bytes, figures(module, "micro_first").bytes);
  }
}

// No backward op reads, through an exact port, anything that went through int8.
TEST_P(CompressModel, ExactPortsReadForwardValues) {
  const Module module = compressed(GetParam());
  std::vector<bool> restored(module.values.size());
  for (const Op& op : module.program("micro_first").ops) {
    for (const int port : op.def->exact) {
      const ValueId id = op.inputs[static_cast<size_t>(port)];
      EXPECT_FALSE(id.valid() && restored[static_cast<size_t>(id.index)]) << op.name;
    }
    if (op.def != &ops::dequantize_int8_def) continue;
    restored[static_cast<size_t>(op.outputs[0].index)] = true;
  }
}

INSTANTIATE_TEST_SUITE_P(Attention, CompressModel,
                         ::testing::Values(ops::AttentionKind::standard, ops::AttentionKind::flash),
                         [](const auto& p) {
                           return p.param == ops::AttentionKind::flash ? "flash" : "standard";
                         });

}  // namespace
}  // namespace snug
