// The search where values may move to host memory: it fits where nothing else does, is no slower
// than a plan that moves nothing, and uses the memory there is.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "search/plan_run.h"
#include "search/room.h"
#include "search/variants.h"
#include "settings/parse.h"
#include "settings/testing/with_flags.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

Resolved moved_run(const std::string& flags) {
  Options o;
  o.model = "gpt2";
  o.seq = 512;
  return resolve(testing::with_flags(o, "--gpu h200 --precision bf16 --batch 8 " + flags));
}

PlannedRun planned(const std::string& flags) { return plan_run(moved_run(flags)); }

bool fits(const PlannedRun& p) { return arenas_of(p.plan.module).fits_in(p.run.limits()); }

TEST(MovedSearch, FitsWhereResidentPlansDoNot) {
  const PlannedRun none = planned("--budget 2GiB --offload none");
  EXPECT_FALSE(fits(none)) << "124 M parameters of 16 bytes, and the context";
  const PlannedRun found = planned("--budget 2GiB");
  EXPECT_TRUE(fits(found));
  EXPECT_FALSE(found.run.recipe.offload.none());
  EXPECT_GT(arenas_of(found.plan.module)[Space::host], 0);
  EXPECT_THAT(print_setting(found.run.options.offload), HasSubstr("optimizer"));
}

TEST(MovedSearch, FittingPlanOffloadsNothing) {
  const PlannedRun found = planned("--budget 100GiB");
  EXPECT_TRUE(found.run.recipe.offload.none());
  EXPECT_EQ(found.step_seconds, planned("--budget 100GiB --offload none").step_seconds);
}

TEST(MovedSearch, IsNoSlowerThanRecomputeAlone) {
  for (const char* budget : {"3GiB", "4GiB"}) {
    SCOPED_TRACE(budget);
    const std::string flags = std::string("--budget ") + budget;
    const PlannedRun plain = planned(flags + " --offload none");
    ASSERT_TRUE(fits(plain));
    EXPECT_LE(planned(flags).step_seconds, plain.step_seconds);
  }
}

TEST(MovedSearch, HostMemoryIsALimit) {
  const PlannedRun found = planned("--budget 2GiB --host-budget 500MiB");
  EXPECT_FALSE(fits(found)) << "the state alone takes more";
  EXPECT_LE(arenas_of(found.plan.module)[Space::device], *found.run.budget)
      << "what lacks nothing but host memory is shown";
  const PlannedRun larger = planned("--budget 2GiB --host-budget 3GiB");
  EXPECT_TRUE(fits(larger));
}

TEST(MovedSearch, UsesDiskWhereHostIsTooSmall) {
  const std::string small = "--budget 1500MiB --host-budget 900MiB";
  EXPECT_FALSE(fits(planned(small)));
  const PlannedRun found = planned(small + " --offload-dir /tmp");
  EXPECT_TRUE(fits(found)) << print_setting(found.run.options.offload);
  EXPECT_TRUE(found.run.recipe.offload.uses(Space::disk));
  const Offload& offload = found.run.recipe.offload;
  EXPECT_EQ(offload.space_of(OffloadItem::optimizer, 0), Space::disk);
  EXPECT_EQ(offload.space_of(OffloadItem::optimizer, 11), Space::host)
      << "the last layers fit there";
}

TEST(MovedSearch, UsesAvailablePartOfDisk) {
  const std::string small = "--budget 1500MiB --host-budget 1400MiB --offload-dir /tmp";
  const PlannedRun found = planned(small + " --disk-budget 800MiB");
  EXPECT_TRUE(fits(found)) << "all of the state would not fit there: "
                           << print_setting(found.run.options.offload);
  EXPECT_THAT(print_setting(found.run.options.offload), HasSubstr("=disk"));
}

TEST(MovedSearch, FitsWithUpdatesInBackward) {
  const PlannedRun found =
      planned("--budget 1504MiB --accum 1 --update-in-backward --clip 0 --recompute full");
  EXPECT_TRUE(fits(found)) << print_setting(found.run.options.offload);
  EXPECT_FALSE(found.run.recipe.offload.none());
}

TEST(MovedSearch, AvoidsDiskWhereHostSuffices) {
  const PlannedRun found = planned("--budget 2GiB --host-budget 8GiB --offload-dir /tmp");
  EXPECT_TRUE(fits(found));
  EXPECT_FALSE(found.run.recipe.offload.uses(Space::disk));
}

TEST(MovedSearch, MoreBytesAreNoSlower) {
  double last = std::numeric_limits<double>::infinity();
  for (const int mib : {1500, 1800, 2200, 2600, 2900, 3000, 3100, 3300, 8000}) {
    const PlannedRun found = planned(fmt::format("--budget {}MiB", mib));
    SCOPED_TRACE(fmt::format("{} MiB: {}", mib, print_setting(found.run.options.offload)));
    ASSERT_TRUE(fits(found));
    EXPECT_LE(found.step_seconds, last);
    last = found.step_seconds;
  }
}

TEST(MovedSearch, IncreasesPrefetchDistance) {
  const PlannedRun found = planned("--budget 2000MiB");
  EXPECT_TRUE(fits(found));
  EXPECT_GT(found.run.recipe.offload.ahead, 1);
  EXPECT_EQ(found.run.options.offload_ahead, found.run.recipe.offload.ahead);
  const PlannedRun pinned = planned("--budget 2000MiB --offload-ahead 1");
  EXPECT_EQ(pinned.run.recipe.offload.ahead, 1);
  EXPECT_LT(found.step_seconds, pinned.step_seconds);
}

TEST(MovedSearch, UsesHostUpdateWhereFaster) {
  const auto on_rtx4090 = [](const std::string& flags) {
    Options o;
    o.model = "gpt2";
    return plan_run(resolve(testing::with_flags(
        o, "--gpu rtx4090 --precision bf16 --batch 8 --seq 512 --budget 2GiB " + flags)));
  };
  const PlannedRun found = on_rtx4090("--host-update auto");
  EXPECT_TRUE(fits(found));
  EXPECT_TRUE(found.run.recipe.host_update.on) << "a slow link";
  EXPECT_NE(found.run.options.host_update, HostUpdate{});
  const PlannedRun pinned = on_rtx4090("--host-update none");
  EXPECT_FALSE(pinned.run.recipe.host_update.on);
  EXPECT_LT(found.step_seconds, pinned.step_seconds);
}

TEST(MovedSearch, CombinesOffloadAndRecompute) {
  const PlannedRun plain = planned("--budget 2800MiB --offload none");
  const PlannedRun found = planned("--budget 2800MiB");
  EXPECT_TRUE(fits(found));
  EXPECT_THAT(print_setting(found.run.options.offload), HasSubstr("activations@0+"));
  EXPECT_EQ(found.recompute.kind, RecomputePolicy::Kind::chosen);
  EXPECT_LT(found.step_seconds, plain.step_seconds);
  const Offload said = parse_setting<Offload>(print_setting(found.run.options.offload), "offload");
  EXPECT_EQ(said.rules, found.run.recipe.offload.rules) << "it can be typed";
  const PlannedRun small = planned("--budget 2800MiB --host-budget 1MiB");
  EXPECT_TRUE(fits(small));
  EXPECT_TRUE(small.run.recipe.offload.none()) << "too little host memory";
}

TEST(MovedSearch, PinnedChoicesAreKept) {
  for (const Variant& v : variants_of(moved_run("--budget 2GiB --micro-order horizontal")))
    EXPECT_EQ(v.settings.recipe.micro_group, 1);
  bool vertical = false;
  for (const Variant& v : variants_of(moved_run("--budget 2GiB")))
    vertical |= v.settings.recipe.micro_group > 1;
  EXPECT_TRUE(vertical);
  for (const Variant& v : variants_of(moved_run("--budget 2GiB --offload grads")))
    EXPECT_EQ(text(v.settings.recipe.offload), "grads");
  const PlannedRun pinned = planned("--budget 8GiB --offload optimizer,master");
  EXPECT_EQ(text(pinned.run.recipe.offload), "optimizer,master") << "its ends, too";
}

TEST(Room, LastLayersStayResidentWhereTheyFit) {
  Module module;
  for (int32_t layer = 0; layer < 4; ++layer) {
    module.layers.push_back(fmt::format("layers.{}.", layer));
    const ValueId id = add_shared(module, fmt::format("grad.{}", layer), {Dtype::f32, {1024}},
                                  Category::grads, Scope::step);
    module[id].layer = layer;
    module[id].space = Space::host;
  }
  const ValueId head =
      add_shared(module, "grad.head", {Dtype::f32, {2048}}, Category::grads, Scope::step);
  module[head].space = Space::host;
  const Offload all = parse_setting<Offload>("optimizer,grads", "offload");
  const auto resident = [&](int64_t bytes, int32_t fewer = 0) -> std::string {
    const auto found =
        Room(module).with_nearer(all, OffloadItem::grads, Space::device, bytes, fewer);
    return found ? text(*found) : "none";
  };
  EXPECT_EQ(resident(8191), "none");
  EXPECT_EQ(resident(8192), "optimizer,grads@0-3");
  EXPECT_EQ(resident(8192 + 2 * 4096 + 4095), "optimizer,grads@0-1");
  EXPECT_EQ(resident(8192 + 2 * 4096 + 4095, 1), "optimizer,grads@0-2");
  EXPECT_EQ(resident(1 << 20), "optimizer");
  EXPECT_FALSE(Room(module).with_nearer(all, OffloadItem::params, Space::device, 1 << 20))
      << "not offloaded";
}

TEST(Room, DiskStateMovesToHost) {
  Module module;
  for (int32_t layer = 0; layer < 4; ++layer) {
    module.layers.push_back(fmt::format("layers.{}.", layer));
    const ValueId id = add_shared(module, fmt::format("m.{}", layer), {Dtype::f32, {1024}},
                                  Category::optimizer, Scope::persistent);
    module[id].layer = layer;
    module[id].space = Space::disk;
  }
  const Offload disk = parse_setting<Offload>("optimizer=disk", "offload");
  const auto nearer = [&](Space space, int64_t bytes) -> std::string {
    const auto found = Room(module).with_nearer(disk, OffloadItem::optimizer, space, bytes);
    return found ? text(*found) : "none";
  };
  EXPECT_EQ(nearer(Space::host, 3 * 4096 - 1), "optimizer,optimizer@0-1=disk");
  EXPECT_EQ(nearer(Space::host, 4 * 4096), "optimizer");
  EXPECT_EQ(nearer(Space::device, 4096), "optimizer@0-2=disk");
  const Room room(module);
  EXPECT_FALSE(room.with_nearer(parse_setting<Offload>("optimizer", "offload"),
                                OffloadItem::optimizer, Space::host, 4 * 4096));
  EXPECT_EQ(
      text(*room.with_nearer(parse_setting<Offload>("optimizer,optimizer@0-3=disk", "offload"),
                             OffloadItem::optimizer, Space::host, 4 * 4096, 1)),
      "optimizer,optimizer@0=disk");
}

}  // namespace
}  // namespace snug
