// Random recipes on a GPU: each learns what it does on the CPU, has the same bits with every dead
// value overwritten and with its ops one by one, and, where nothing lossy is stored, with
// everything kept.
#include <cmath>

#include "gpu_train/gpu_run.h"
#include "support/random_recipe.h"

namespace snug {
namespace {

constexpr int kSeeds = 120;
constexpr int kShards = 6;
constexpr int kFuzzSteps = 4;  // a program's first run, its recording and two replays

// Relative: of the first loss, which no update has touched, and of the last. A sign or a code that
// rounding turns over moves a weight by a whole step.
struct FuzzTolerance {
  double first, last;
};
FuzzTolerance tolerance(Dtype precision) {
  if (precision == Dtype::bf16) return {1e-2, 3e-2};
  if (precision == Dtype::f16) return {2e-3, 3e-2};
  return {1e-5, 1e-2};
}

std::vector<float> eager_losses(const DrawnRecipe& d) {
  SmallRun run = gpu_run(d.model, d.build, d.recipe);
  run.executor().observe = [](size_t, size_t) {};
  return run.losses(kFuzzSteps);
}

void check(const DrawnRecipe& d) {
  SmallRun run = gpu_run(d.model, d.build, d.recipe);
  const std::vector<float> got = run.losses(kFuzzSteps);
  const std::vector<float> want = SmallRun(d.model, d.build, d.recipe).losses(kFuzzSteps);
  const auto [first, last] = tolerance(d.recipe.precision);
  EXPECT_NEAR(got.front(), want.front(), first * want.front());
  EXPECT_NEAR(got.back(), want.back(), last * want.back());
  EXPECT_TRUE(std::isfinite(run.evaluate()));

  EXPECT_EQ(eager_losses(d), got) << "a replay computes something else";
  SmallRun poisoned = gpu_run(d.model, d.build, d.recipe,
                              {.test = {.poison_dead = true}, .math = kDeterministic.math});
  EXPECT_EQ(poisoned.losses(kFuzzSteps), got) << "a dead value was read";
  Recipe kept = d.recipe;
  kept.recompute = {};
  kept.fused_recompute = false;
  expect_as_kept(d, got, gpu_run(d.model, d.build, kept).losses(kFuzzSteps));
}

class GpuRecipeFuzz : public OnGpu, public ::testing::WithParamInterface<int> {};

TEST_P(GpuRecipeFuzz, MatchesCpuAndIsExact) {
  for (int seed = GetParam(); seed < kSeeds; seed += kShards) {
    const DrawnRecipe d = draw_recipe(seed);
    SCOPED_TRACE(d.text);
    ASSERT_NO_THROW(check(d));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GpuRecipeFuzz, ::testing::Range(0, kShards));

}  // namespace
}  // namespace snug
