// Random recipes on small models: each is planned, run, run again with every dead value
// overwritten, and run once more with everything kept. Seeds are fixed, so a failure names a recipe
// that stays.
#include <gtest/gtest.h>
#include <omp.h>

#include <cmath>

#include "base/sanitized.h"
#include "support/random_recipe.h"
#include "support/small_run.h"

namespace snug {
namespace {

constexpr int kSeeds = kSanitized ? 24 : 240;
constexpr int kShards = 12;  // tests that share the seeds, so that several run at once
constexpr int kFuzzSteps = 3;

void check(const DrawnRecipe& d) {
  SmallRun run(d.model, d.build, d.recipe);
  const std::vector<float> losses = run.losses(kFuzzSteps);
  for (const float loss : losses) EXPECT_TRUE(std::isfinite(loss)) << loss;
  EXPECT_TRUE(std::isfinite(run.evaluate()));
  EXPECT_EQ(run.executor().allocated_bytes(), run.executor().planned_bytes());
  EXPECT_EQ(run.executor().measured_bytes(), run.executor().planned_bytes());

  SmallRun poisoned(d.model, d.build, d.recipe, {.test = {.poison_dead = true}});
  EXPECT_EQ(poisoned.losses(kFuzzSteps), losses) << "a dead value was read";

  Recipe plain = d.recipe;
  plain.recompute = {};
  plain.fused_recompute = false;
  expect_as_kept(d, losses, SmallRun(d.model, d.build, plain).losses(kFuzzSteps));
}

// Small models are fastest on one thread, and results do not depend on how many there are.
class RecipeFuzz : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};

TEST_P(RecipeFuzz, PlanIsRunAndRecomputeIsExact) {
  for (int seed = GetParam(); seed < kSeeds; seed += kShards) {
    const DrawnRecipe d = draw_recipe(seed);
    SCOPED_TRACE(d.text);
    ASSERT_NO_THROW(check(d));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, RecipeFuzz, ::testing::Range(0, kShards));

}  // namespace
}  // namespace snug
