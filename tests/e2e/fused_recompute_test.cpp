// What backward ops recompute has the same bits as what was kept: the loss curve does not change,
// whatever else the recipe asks for; the arena shrinks; dead values are dead.
#include <gtest/gtest.h>
#include <omp.h>

#include "settings/parse.h"
#include "support/configurations.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int kFusedSteps = 4;
constexpr const char* kFusedPolicies[] = {"none",      "full",      "every:2", "sqrt",
                                          "ratio:0.5", "attention", "list:1"};

Recipe fused(Recipe recipe) {
  recipe.fused_recompute = true;
  return recipe;
}

class FusedRecomputeRun : public ::testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};
class FusedRecomputeFamilies : public FusedRecomputeRun,
                               public ::testing::WithParamInterface<const char*> {};

TEST_P(FusedRecomputeFamilies, EveryPolicyHasTheSameBits) {
  const std::string model = tests_dir() + "/parity/" + GetParam();
  const BuildOptions build{.batch = 2, .seq = 19, .dropout = 0.1};
  for (const Dtype precision : {Dtype::f32, Dtype::bf16}) {
    Recipe recipe{.accum = 2, .precision = precision};
    const std::vector<float> want = SmallRun(model, build, recipe).losses(kFusedSteps);
    for (const char* policy : kFusedPolicies) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(precision), policy));
      recipe.recompute = parse_setting<RecomputePolicy>(policy, "recompute");
      EXPECT_EQ(SmallRun(model, build, fused(recipe)).losses(kFusedSteps), want);
    }
  }
}

TEST_P(FusedRecomputeFamilies, UpdatesInBackwardHaveTheSameBits) {
  const std::string model = tests_dir() + "/parity/" + GetParam();
  const BuildOptions build{.batch = 2, .seq = 19, .residual_in_matmul = true};
  const Recipe recipe{.update_in_backward = true, .clip = 0};
  EXPECT_EQ(SmallRun(model, build, fused(recipe)).losses(kFusedSteps),
            SmallRun(model, build, recipe).losses(kFusedSteps));
}

INSTANTIATE_TEST_SUITE_P(Models, FusedRecomputeFamilies,
                         ::testing::Values("gpt2", "llama", "qwen2", "mistral", "bert", "qwen3",
                                           "olmo2", "phi3", "gemma3", "stablelm_parallel",
                                           "gpt_neox", "opt"),
                         [](const auto& p) { return std::string(p.param); });

class FusedRecomputePlan : public FusedRecomputeRun,
                           public ::testing::WithParamInterface<Configuration> {};

TEST_P(FusedRecomputePlan, MatchesRunningProgram) {
  const Configuration& c = GetParam();
  SmallRun run(c.model, c.build, fused(c.recipe));
  SmallRun poisoned(c.model, c.build, fused(c.recipe), {.test = {.poison_dead = true}});
  EXPECT_EQ(poisoned.losses(kFusedSteps), run.losses(kFusedSteps));
  EXPECT_EQ(run.executor().measured_bytes(), run.executor().planned_bytes());
  EXPECT_LE(run.executor().planned_bytes(),
            SmallRun(c.model, c.build, c.recipe).executor().planned_bytes());
}

INSTANTIATE_TEST_SUITE_P(Configurations, FusedRecomputePlan, ::testing::ValuesIn(configurations()),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace snug
