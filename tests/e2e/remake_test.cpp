// What backward ops make again has the same bits as what was kept: the loss curve does not change,
// whatever else the recipe asks for; the arena shrinks; dead values are dead.
#include <gtest/gtest.h>
#include <omp.h>

#include "support/configurations.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int kSteps = 4;
constexpr const char* kPolicies[] = {"none",      "full",      "every:2", "sqrt",
                                     "ratio:0.5", "attention", "list:1"};

Recipe remaking(Recipe recipe) {
  recipe.remake = true;
  return recipe;
}

class RemakeRun : public testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};
class RemakeFamilies : public RemakeRun, public testing::WithParamInterface<const char*> {};

TEST_P(RemakeFamilies, EveryPolicyHasTheSameBits) {
  const std::string model = tests_dir() + "/parity/" + GetParam();
  const BuildOptions build{.batch = 2, .seq = 19, .dropout = 0.1};
  for (const Dtype precision : {Dtype::f32, Dtype::bf16}) {
    Recipe recipe{.accum = 2, .precision = precision};
    const std::vector<float> want = SmallRun(model, build, recipe).losses(kSteps);
    for (const char* policy : kPolicies) {
      SCOPED_TRACE(fmt::format("{} {}", name_of(precision), policy));
      recipe.recompute = parse_recompute(policy);
      EXPECT_EQ(SmallRun(model, build, remaking(recipe)).losses(kSteps), want);
    }
  }
}

TEST_P(RemakeFamilies, UpdatesInBackwardHaveTheSameBits) {
  const std::string model = tests_dir() + "/parity/" + GetParam();
  const BuildOptions build{.batch = 2, .seq = 19, .residual_in_product = true};
  const Recipe recipe{.update_in_backward = true, .clip = 0};
  EXPECT_EQ(SmallRun(model, build, remaking(recipe)).losses(kSteps),
            SmallRun(model, build, recipe).losses(kSteps));
}

INSTANTIATE_TEST_SUITE_P(Models, RemakeFamilies,
                         testing::Values("gpt2", "llama", "qwen2", "mistral", "bert"),
                         [](const auto& p) { return std::string(p.param); });

class RemakePlan : public RemakeRun, public testing::WithParamInterface<Configuration> {};

TEST_P(RemakePlan, IsWhatRuns) {
  const Configuration& c = GetParam();
  SmallRun run(c.model, c.build, remaking(c.recipe));
  SmallRun poisoned(c.model, c.build, remaking(c.recipe), {.poison_dead = true});
  EXPECT_EQ(poisoned.losses(kSteps), run.losses(kSteps));
  EXPECT_EQ(run.executor().measured_bytes(), run.executor().planned_bytes());
  EXPECT_LE(run.executor().planned_bytes(),
            SmallRun(c.model, c.build, c.recipe).executor().planned_bytes());
}

INSTANTIATE_TEST_SUITE_P(Configurations, RemakePlan, testing::ValuesIn(configurations()),
                         [](const auto& p) { return std::string(p.param.name); });

}  // namespace
}  // namespace snug
