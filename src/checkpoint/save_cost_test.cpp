#include "checkpoint/save_cost.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "checkpoint/run_state.h"
#include "runtime/value_stream.h"
#include "snug/set_option.h"

namespace snug {
namespace {

// The 0.5B on a GPU that this machine need not have, 32 sequences a step.
PlannedRun planned(const std::function<void(Options&)>& change = {}) {
  Options o;
  o.model = "qwen2.5-0.5b";
  o.gpu = "h200";
  o.batch = 8;
  o.accum = 4;
  set_option(o, "save-every", "100");
  set_option(o, "recompute", "none");
  set_option(o, "offload", "none");
  if (change) change(o);
  return plan_run(resolve(o));
}

TEST(SaveCost, StagingWaitsOnlyForLink) {
  const PlannedRun run = planned();
  const SaveCost cost = save_cost(run);
  EXPECT_EQ(cost.bytes, run_state_bytes(run.plan.module));
  EXPECT_GE(cost.staging, cost.bytes);
  EXPECT_LT(cost.staging, cost.bytes + (1 << 20));
  EXPECT_GT(cost.disk_seconds, 1);
  EXPECT_EQ(cost.waits_seconds, 0);
}

TEST(SaveCost, WaitsForDiskWithoutHostMemory) {
  constexpr int64_t kRoom = int64_t{1} << 30;
  const SaveCost some =
      save_cost(planned([](Options& o) { set_option(o, "host-budget", "1GiB"); }));
  EXPECT_GT(some.staging, kRoom / 2);
  EXPECT_LE(some.staging, kRoom);
  EXPECT_GT(some.waits_seconds, 0);
  EXPECT_LT(some.waits_seconds, some.disk_seconds);
  const SaveCost none =
      save_cost(planned([](Options& o) { set_option(o, "host-budget", "50MiB"); }));
  EXPECT_EQ(none.staging, 0);
  EXPECT_GT(none.waits_seconds, some.waits_seconds);
}

TEST(SaveCost, CountsPageTablesInDeviceBudget) {
  const PlannedRun run = planned([](Options& o) { set_option(o, "budget", "40GiB"); });
  const SaveCost cost = save_cost(run);
  SpaceBytes all = arenas_of(run.plan.module);
  all[Space::host] += cost.staging;
  EXPECT_TRUE(all.fits_in(run.run.limits()));
}

TEST(SaveCost, WritesHostStateInPlace) {
  const SaveCost cost =
      save_cost(planned([](Options& o) { set_option(o, "offload", "optimizer,master"); }));
  const SaveCost all = save_cost(planned());
  EXPECT_LT(cost.staging, all.staging / 4);
  EXPECT_GT(cost.waits_seconds, 0);
}

TEST(SaveCost, SynchronousSaveTakesDiskTime) {
  const SaveCost cost = save_cost(planned([](Options& o) { o.save_sync = true; }));
  EXPECT_EQ(cost.staging, 0);
  EXPECT_EQ(cost.waits_seconds, cost.disk_seconds);
}

TEST(SaveCost, CountsTheWaitForTheOneBefore) {
  const SaveCost cost = save_cost(planned([](Options& o) { set_option(o, "save-every", "1"); }));
  EXPECT_GT(cost.waits_seconds, 0);
  EXPECT_EQ(
      save_cost(planned([](Options& o) { set_option(o, "save-every", "10min"); })).waits_seconds,
      0);
}

TEST(SaveCost, StateIsSavedInFileThenUpdateOrder) {
  const PlannedRun run = planned();
  const Module& module = run.plan.module;
  const std::vector<ValueId> order = state_to_save(module);
  EXPECT_THAT(order, ::testing::UnorderedElementsAreArray(run_state(module)));
  for (size_t i = 1; i < order.size(); ++i)
    EXPECT_GE(size_of(module[order[i - 1]].type.dtype), size_of(module[order[i]].type.dtype));
}

}  // namespace
}  // namespace snug
