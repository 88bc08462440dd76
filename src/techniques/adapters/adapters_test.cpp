#include "techniques/adapters/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compile/compile.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "models/model.h"
#include "ops/registry.h"
#include "ops/testing/refusal.h"
#include "settings/parse.h"

namespace snug {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Module compiled(std::string_view lora, BaseKind base = BaseKind::plain,
                CompilePhase last = CompilePhase::update) {
  const Model model = Model::load("llama-7b:128x2");
  Recipe recipe{.adapters = parse_setting<Adapters>(lora, "lora"), .base = base};
  return compile("m", model.forward({.batch = 2, .seq = 8}), recipe, last);
}

std::vector<std::string> names_of(const Module& module, Category category) {
  std::vector<std::string> names;
  for (const Value& value : module.values) {
    if (value.shared() && value.category == category && value.layer == 0)
      names.push_back(value.name);
  }
  return names;
}

int64_t bytes_of(const Module& module, Category category, bool adapters_only) {
  int64_t bytes = 0;
  for (const Value& value : module.values) {
    if (!value.shared() || !value.owns_bytes() || value.category != category) continue;
    if (adapters_only && !(value.param && value.param->adapter)) continue;
    bytes += value.type.bytes();
  }
  return bytes;
}

TEST(Adapters, AreReadAndWritten) {
  const Adapters a =
      parse_setting<Adapters>("r=8,alpha=32,targets=q_proj+v_proj,dropout=0.05", "lora");
  EXPECT_EQ(a.rank, 8);
  EXPECT_EQ(a.scale(), 4);
  EXPECT_THAT(a.targets, ElementsAre("q_proj", "v_proj"));
  EXPECT_EQ(text(a), "r=8,alpha=32,targets=q_proj+v_proj,dropout=0.05");
  EXPECT_EQ(parse_setting<Adapters>(text(a), "lora"), a);
  EXPECT_EQ(text(parse_setting<Adapters>("r=4", "lora")), "r=4,alpha=8,targets=all");
  EXPECT_FALSE(parse_setting<Adapters>("none", "lora").on());
}

TEST(Adapters, RefusesInvalidAdapters) {
  const auto expect = [](std::string_view text, std::string_view sentence) {
    EXPECT_THAT(refusal_of([&] { parse_setting<Adapters>(text, "lora"); }),
                HasSubstr(std::string(sentence)));
  };
  expect("r=0", "r is between 1 and 4096");
  expect("r=x", "r=x is not a whole number");
  expect("rank=4", "'rank' is not r, alpha, targets or dropout");
  expect("r=4,alpha=-1", "alpha is more than 0");
  expect("r=4,dropout=1", "dropout is between 0 and 1");
  expect("r=4,targets=all+q_proj", "all and qkvo stand alone");
  expect("r=4,targets=", "a target has no name");
}

TEST(Adapters, UnknownTargetsAreNamed) {
  EXPECT_THAT(refusal_of([] { compiled("r=4,targets=q_prj"); }),
              HasSubstr("no linear layer of 'm' is called that"));
}

// Parameters are frozen: only the adapters have gradients and state.
TEST(Adapters, FrozenParametersHaveNoGradientAndNoState) {
  const Module module = compiled("r=4,targets=q_proj+v_proj+down_proj");
  verify(module);
  EXPECT_THAT(
      names_of(module, Category::grads),
      ElementsAre("grad.layers.0.mlp.down.lora_b.weight", "grad.layers.0.mlp.down.lora_a.weight",
                  "grad.layers.0.attn.qkv.lora_b.weight", "grad.layers.0.attn.qkv.lora_a.weight"));
  const int64_t adapters = bytes_of(module, Category::params, /*adapters_only=*/true);
  EXPECT_EQ(bytes_of(module, Category::grads, false), adapters);
  EXPECT_EQ(bytes_of(module, Category::optimizer, false), 2 * adapters);
  EXPECT_EQ(bytes_of(module, Category::master, false), 0);
}

TEST(Adapters, AreCalledAsPeftCallsThem) {
  const Module module = compiled("r=4,targets=k_proj");
  const Value& a = module[module.find_shared("layers.1.attn.qkv.lora_a.weight")];
  const Value& b = module[module.find_shared("layers.1.attn.qkv.lora_b.weight")];
  EXPECT_EQ(a.type.text(), "f32[4,128]");
  EXPECT_EQ(b.type.text(), "f32[128,4]");
  EXPECT_EQ(a.param->checkpoint[0].name,
            "base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight");
  EXPECT_EQ(b.param->checkpoint[0].name,
            "base_model.model.model.layers.1.self_attn.k_proj.lora_B.weight");
}

// Where a layer narrows, its GEMM adds to the adapter's, and what follows reads the sum; otherwise the
// adapter's adds.
TEST(AdapterGradients, RunFirstWhereLayerNarrows) {
  const Module module = compiled("r=4");
  verify(module);
  const std::vector<Op>& ops = module.program(ProgramRole::training_first).ops;
  std::map<std::string, size_t> at;
  for (size_t i = 0; i < ops.size(); ++i) at[ops[i].name] = i;
  const auto sum_of = [&](size_t i) {
    return ops[i].inputs.size() > 2 ? ops[i].inputs[2] : ValueId{};
  };
  const auto readers = [&](ValueId id) {
    return std::ranges::count_if(
        ops, [&](const Op& op) { return std::ranges::find(op.inputs, id) != op.inputs.end(); });
  };
  for (const std::string layer : {"attn.qkv", "attn.out", "mlp.gate_up", "mlp.down"}) {
    const std::string name = "layers.1." + layer;
    size_t first = at.at(name + ".grad_input"), second = at.at(name + ".lora_a.grad_input");
    if (layer == "mlp.down") std::swap(first, second);
    EXPECT_LT(first, second) << name;
    EXPECT_FALSE(sum_of(first).valid()) << name;
    EXPECT_EQ(sum_of(second), ops[first].outputs[0]) << name;
    EXPECT_EQ(readers(ops[first].outputs[0]), 1) << name;
    EXPECT_GE(readers(ops[second].outputs[0]), 1) << name;
  }
}

// What is stored in fewer bits is whole only for the op that reads it.
TEST(StoreBase, EveryReaderHasItsOwnCopy) {
  for (const BaseKind kind : {BaseKind::nf4, BaseKind::int8}) {
    const Module module = compiled("r=4", kind);
    verify(module);
    std::map<ValueId, int> readers;
    for (const Op& op : module.program(ProgramRole::training_first).ops)
      for (const ValueId id : op.inputs) ++readers[id];
    int copies = 0;
    for (const Op& op : module.program(ProgramRole::training_first).ops) {
      if (!op.def->kind.starts_with("dequantize")) continue;
      ++copies;
      EXPECT_EQ(readers[op.outputs[0]], 1) << op.name;
    }
    EXPECT_EQ(copies, 2 * 4 + 2 * 4 - 1);  // in forward and backward; nothing flows below the first
    const Value& codes = module[module.find_shared("layers.0.attn.qkv.weight.codes")];
    EXPECT_EQ(codes.type.text(), kind == BaseKind::nf4 ? "u8[384,64]" : "i8[384,128]");
    EXPECT_EQ(print(parse(print(module), ops::registry())), print(module));
  }
}

}  // namespace
}  // namespace snug
