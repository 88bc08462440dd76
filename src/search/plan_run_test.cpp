#include "search/plan_run.h"

#include <gtest/gtest.h>

#include "ir/text.h"

namespace snug {
namespace {

Options on_a_gpu() {
  Options o;
  o.model = "snug-tiny";
  o.device = "cuda";
  return o;
}

TEST(PlanRun, FreeMemoryThatHoldsTheStepChangesNothing) {
  const Resolved unlimited = resolve(on_a_gpu());
  const PlannedRun plain = plan_run(unlimited);
  const int64_t whole = arena_of(plain.plan) + unlimited.context;
  for (const int64_t free : {whole, 8 * whole}) {
    const PlannedRun planned = plan_run(resolve(on_a_gpu(), free));
    EXPECT_EQ(print(planned.plan.module), print(plain.plan.module));
    EXPECT_EQ(planned.recompute.kind, RecomputePolicy::Kind::none);
    EXPECT_TRUE(planned.changed.empty());
    EXPECT_FALSE(planned.chosen);
  }
}

TEST(PlanRun, FreeMemoryThatDoesNotIsABudget) {
  const Resolved unlimited = resolve(on_a_gpu());
  const int64_t free = arena_of(plan_run(unlimited).plan) * 3 / 4 + unlimited.context;
  const PlannedRun planned = plan_run(resolve(on_a_gpu(), free));
  EXPECT_TRUE(arenas_of(planned.plan.module).fits_in(planned.run.limits()));
  EXPECT_TRUE(planned.chosen || !planned.changed.empty());
  Options given = on_a_gpu();
  given.budget = std::to_string(free);
  EXPECT_EQ(print(planned.plan.module), print(plan_run(resolve(given)).plan.module));
}

}  // namespace
}  // namespace snug
