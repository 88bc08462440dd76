// What is compiled for evaluation and generation alone: nothing of training is in it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "compile/compile.h"
#include "ir/verifier.h"
#include "models/model.h"
#include "passes/shared_names.h"
#include "placement/plan.h"

namespace snug {
namespace {

Model tiny_llama() {
  return Model::from_config(
      parse_hf_config(R"({"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 12,
                          "vocab_size": 37, "num_attention_heads": 3, "num_key_value_heads": 1,
                          "intermediate_size": 20, "max_position_embeddings": 64})",
                      "tiny"),
      "tiny");
}

std::vector<std::string> kinds_of(const Program& program) {
  std::vector<std::string> kinds;
  for (const Op& op : program.ops) kinds.emplace_back(op.def->kind);
  return kinds;
}

int64_t bytes_of(const Module& module, Category category) {
  int64_t bytes = 0;
  for (const Value& value : module.values)
    if (value.category == category && value.owns_bytes()) bytes += value.type.bytes();
  return bytes;
}

void expect_nothing_of_training(const Module& module) {
  for (const Category c : {Category::grads, Category::master, Category::optimizer})
    EXPECT_EQ(bytes_of(module, c), 0) << name_of(c);
  for (const Program& program : module.programs) {
    for (const Op& op : program.ops) EXPECT_EQ(op.phase, Phase::forward) << op.name;
  }
}

TEST(ForwardOnly, EvaluationIsOneForwardProgram) {
  const Plan plan = make_plan(
      compile_evaluation("tiny", tiny_llama().forward({.batch = 2, .seq = 16}), {}), Backend::cpu);
  ASSERT_EQ(plan.module.programs.size(), 1U);
  EXPECT_EQ(plan.module.programs[0].name, "eval");
  expect_nothing_of_training(plan.module);

  // No activation outlives its readers.
  const Plan deep = make_plan(
      compile_evaluation("tiny", tiny_llama().with_layers(6).forward({.batch = 2, .seq = 16}), {}),
      Backend::cpu);
  const auto activations = [](const Plan& p) {
    return p.memory.device().category_peaks[static_cast<size_t>(Category::activations)];
  };
  EXPECT_EQ(activations(deep), activations(plan)) << "layers use the same bytes in turn";
}

TEST(ForwardOnly, EvaluationIn16BitsHasNoMasters) {
  const Module module = compile_evaluation("tiny", tiny_llama().forward({.batch = 2, .seq = 16}),
                                           {.precision = Dtype::bf16});
  expect_nothing_of_training(module);
  EXPECT_EQ(bytes_of(module, Category::params), 2 * tiny_llama().parameters());
}

TEST(ForwardOnly, PrefillEndsWithTheLastKeysAndValues) {
  const Module module =
      compile_generation("tiny", tiny_llama().cached_forward(64), /*prefill_tokens=*/8, {});
  verify(module);
  expect_nothing_of_training(module);
  ASSERT_EQ(module.programs.size(), 2U);
  EXPECT_EQ(kinds_of(module.program("prefill")).back(), "cached_attention");
  EXPECT_EQ(kinds_of(module.program("decode")).back(), "linear");
  EXPECT_EQ(std::ranges::count(kinds_of(module.program("decode")), "cached_attention"), 2);
  // Of 2 layers keys and values, 64 positions, 1 head of 4; and the logits.
  EXPECT_EQ(bytes_of(module, Category::buffers), (2 * 2 * 64 * 4 + 37) * 4);
}

TEST(ForwardOnly, CachesHaveModelTypeLogitsFp32) {
  const Module module =
      compile_generation("tiny", tiny_llama().cached_forward(64), 0, {.precision = Dtype::bf16});
  verify(module);
  ASSERT_EQ(module.programs.size(), 1U) << "a prompt of one token needs no prefill";
  const auto type = [&](const char* name) { return module[module.find_shared(name)].type.text(); };
  EXPECT_EQ(type("layers.0.attn.keys"), "bf16[1,64,1,4]");
  EXPECT_EQ(type("layers.1.attn.values"), "bf16[1,64,1,4]");
  EXPECT_EQ(type(shared_names::kLogits), "f32[1,1,37]");
}

}  // namespace
}  // namespace snug
