#include "machine/here.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "hal/cpu/cpu_device.h"
#include "machine/host_budget.h"
#include "snug/set_option.h"

namespace snug {
namespace {

Options tiny_on(const char* device) {
  Options o;
  o.model = "snug-tiny";
  o.batch = 2;
  o.seq = 64;
  set_option(o, "device", device);
  return o;
}

TEST(Here, FreeMemoryBudgetIsLowerAndSteady) {
  EXPECT_EQ(budget_of_free(parse_bytes("24GiB")), parse_bytes("24GiB") - parse_bytes("16MiB"));
  EXPECT_EQ(budget_of_free(parse_bytes("24GiB") + parse_bytes("15MiB")),
            budget_of_free(parse_bytes("24GiB")));
  EXPECT_EQ(budget_of_free(parse_bytes("10MiB")), 0);
}

TEST(Here, CpuRunHasNoBudget) {
  EXPECT_FALSE(free_budget(tiny_on("cpu")));
  const Resolved run = resolve_here(tiny_on("cpu"));
  EXPECT_FALSE(run.budget);
  EXPECT_FALSE(run.host_budget) << "a plan for a CPU is the same on every machine";
}

TEST(Here, HostMemoryLimitsRunByDefault) {
  Resolved run = resolve_here(tiny_on("cpu"));
  limit_host(run);
  ASSERT_TRUE(run.host_budget);
  EXPECT_LT(*run.host_budget, available_memory_bytes());
  Options given = tiny_on("cpu");
  set_option(given, "host-budget", "3GiB");
  run = resolve_here(given);
  limit_host(run);
  EXPECT_EQ(run.host_budget, parse_bytes("3GiB"));
  run = resolve_here(tiny_on("null"));
  limit_host(run);
  EXPECT_FALSE(run.host_budget);
}

TEST(Here, CpuArenaIsPartOfHostMemory) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_EQ(host_budget_of(8 * kGiB, 3 * kGiB), 4 * kGiB);
  EXPECT_EQ(host_budget_of(8 * kGiB, 30 * kGiB), 0);

  const auto host_budget = [](const char* given) {
    Options o = tiny_on("cpu");
    set_option(o, "host-budget", given);
    PlannedRun planned = plan_run(resolve_here(o));
    planned.plan.module.arena_bytes[static_cast<size_t>(Space::device)] = int64_t{1} << 60;
    leave_arena_to_cpu(planned);
    return planned.run.host_budget;
  };
  EXPECT_EQ(host_budget(""), 0) << "an arena of all memory leaves nothing";
  EXPECT_EQ(host_budget("3GiB"), 3 * kGiB);
}

}  // namespace
}  // namespace snug
