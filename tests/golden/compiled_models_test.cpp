// What the compiler makes of real models reads back from its text, is sound, and runs in null.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>

#include "golden/golden.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "models/model.h"
#include "ops/registry.h"
#include "placement/plan.h"
#include "runtime/null_executor.h"
#include "settings/parse.h"

namespace snug {
namespace {

Module compiled(const std::string& model, const BuildOptions& options, const Recipe& recipe) {
  const Model loaded = Model::load(model);
  return make_plan(loaded.config().name, loaded.forward(options), recipe).module;
}

struct CompiledModel : ::testing::TestWithParam<const char*> {};

TEST_P(CompiledModel, ReadsBackVerifiesAndRunsInNull) {
  const Module module = compiled(GetParam(), {.batch = 2, .seq = 16}, {.accum = 3});
  const std::string text = print(module);
  const Module again = parse(text, ops::registry());
  EXPECT_EQ(print(again), text);
  verify(again);
  const NullRun run = run_null(again);
  EXPECT_EQ(run.high_water[0], module.arena_bytes[0]);
}

std::string test_name(const ::testing::TestParamInfo<const char*>& model) {
  std::string name = model.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Families, CompiledModel,
                         ::testing::Values("gpt2", "llama-7b", "qwen2.5-0.5b", "mistral-7b",
                                           "mistral-7b-v0.1", "qwen3-0.6b", "olmo2-1b", "phi3-mini",
                                           "gemma3-1b", "stablelm-3b", "pythia-410m", "opt-125m",
                                           "mlp:64x8"),
                         test_name);

TEST(CompiledModels, LargestModelIsSound) {
  verify(compiled("llama-405b", {.batch = 1, .seq = 4096}, {.accum = 2}));
}

// All passes and a placement, on two layers: readable enough to review. Each pass alone is in
// passes_test.cpp.
TEST(CompiledModels, TwoLayers) {
  expect_golden(compiled("mlp:8x2", {.batch = 4},
                         {.recompute = parse_setting<RecomputePolicy>("full", "recompute")}),
                "compile",
                "snug plan mlp:8x2 --batch 4 --recompute full: the whole compile, placed.");
}

}  // namespace
}  // namespace snug
