// What the compiler makes of real models reads back from its text, is sound, and runs in null.
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <chrono>

#include "ir/text.h"
#include "ir/verifier.h"
#include "models/model.h"
#include "ops/registry.h"
#include "plan/plan.h"
#include "runtime/null_executor.h"

namespace snug {
namespace {

Module compiled(const std::string& model, const BuildOptions& options, const Recipe& recipe) {
  return make_plan(model, Model::load(model).forward(options), recipe).module;
}

struct CompiledModel : testing::TestWithParam<const char*> {};

TEST_P(CompiledModel, ReadsBackVerifiesAndRunsInNull) {
  const Module module = compiled(GetParam(), {.batch = 2, .seq = 16}, {.accum = 3});
  const std::string text = print(module);
  const Module again = parse(text, ops::registry());
  EXPECT_EQ(print(again), text);
  verify(again);
  const NullRun run = run_null(again);
  EXPECT_EQ(run.high_water[0], module.arena_bytes[0]);
}

std::string test_name(const testing::TestParamInfo<const char*>& model) {
  std::string name = model.param;
  std::ranges::replace_if(
      name, [](char c) { return std::isalnum(c) == 0; }, '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Families, CompiledModel,
                         testing::Values("gpt2", "llama-7b", "qwen2.5-0.5b", "mistral-7b",
                                         "mlp:64x8"),
                         test_name);

TEST(CompiledModels, TheLargestVerifiesInNoTime) {
  const Module module = compiled("llama-405b", {.batch = 1, .seq = 4096}, {.accum = 2});
  size_t ops = 0;
  for (const Program& program : module.programs) ops += program.ops.size();
  const auto start = std::chrono::steady_clock::now();
  verify(module);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  RecordProperty("ops", static_cast<int>(ops));
  RecordProperty("ms", static_cast<int>(took.count()));
  EXPECT_LT(took.count(), 1000);  // far less; sanitizers and busy machines take longer
}

}  // namespace
}  // namespace snug
