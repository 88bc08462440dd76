// A trace played: lives, the peak, and free ranges at any moment.
#include "pytorch/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pytorch/testing.h"

namespace snug::pytorch {
namespace {

constexpr int64_t kMiB = 1 << 20;

TEST(Replay, FindsPeakAndItsAllocations) {
  Recorder r;
  const int64_t a = r.alloc(3 * kMiB);
  const int64_t b = r.alloc(2 * kMiB);
  r.free(a);
  r.alloc(kMiB);
  r.free(b);
  const Snapshot s = r.snapshot();
  const Replay replay = play(s.devices[0]);
  EXPECT_EQ(replay.peak_allocated, 5 * kMiB);
  EXPECT_EQ(replay.peak_reserved, 6 * kMiB);
  EXPECT_EQ(replay.reserved[static_cast<size_t>(replay.peak)], 5 * kMiB);
  ASSERT_EQ(replay.allocations.size(), 3U);
  EXPECT_TRUE(replay.allocations[0].lives_at(replay.peak));
  EXPECT_FALSE(replay.allocations[2].lives_at(replay.peak));
  EXPECT_TRUE(replay.is_alive_at_end(replay.allocations[2]));
  EXPECT_FALSE(replay.is_alive_at_end(replay.allocations[0]));
}

TEST(Replay, HasAllocationsBeforeTrace) {
  Recorder r;
  const int64_t kept = r.alloc(4 * kMiB);
  const int64_t freed = r.alloc(kMiB);
  r.trace().clear();  // recording begins here
  r.free(freed);
  r.alloc(2 * kMiB);
  const Snapshot s = r.snapshot();
  const Replay replay = play(s.devices[0]);
  EXPECT_EQ(replay.lost, 1);
  EXPECT_EQ(replay.peak_allocated, 6 * kMiB);
  EXPECT_EQ(replay.allocations.front().from, 0);
  EXPECT_TRUE(std::ranges::any_of(replay.allocations, [&](const Allocation& a) {
    return a.address == kept && a.from == 0 && replay.is_alive_at_end(a);
  }));
}

TEST(Replay, EmptyTraceHasOnlyBlocks) {
  Recorder r;
  r.alloc(4 * kMiB);
  r.trace().clear();
  const Snapshot s = r.snapshot();
  const Replay replay = play(s.devices[0]);
  EXPECT_EQ(replay.moments, 1);
  EXPECT_EQ(replay.peak_allocated, 4 * kMiB);
  EXPECT_EQ(replay.peak_reserved, 4 * kMiB);
}

TEST(Replay, FreesWithoutARequestCount) {
  Recorder r;
  const int64_t a = r.alloc(kMiB);
  r.free(a);
  std::erase_if(r.trace(), [](const Event& e) { return e.action == Action::free_requested; });
  const Snapshot s = r.snapshot();
  EXPECT_FALSE(play(s.devices[0]).is_alive_at_end(play(s.devices[0]).allocations[0]));
}

TEST(Replay, FreeRangesSeparateLiveAllocations) {
  // One segment of 10 MiB: 2 MiB taken, 3 free, 1 taken, 4 free; and one that comes later.
  DeviceSnapshot device;
  device.segments.push_back({.address = 0x1000000, .bytes = 10 * kMiB});
  device.segments.push_back({.address = 0x9000000, .bytes = 4 * kMiB});
  device.trace = {{Action::alloc, 0x1000000, 2 * kMiB, 1, 0},
                  {Action::alloc, 0x1000000 + 5 * kMiB, kMiB, 2, 0},
                  {Action::segment_alloc, 0x9000000, 4 * kMiB, 3, 0}};
  const Replay replay = play(device);
  std::vector<int64_t> sizes;
  for (const FreeRange& range : free_ranges(device, replay, 2)) sizes.push_back(range.bytes);
  EXPECT_THAT(sizes, ::testing::ElementsAre(3 * kMiB, 4 * kMiB));
  EXPECT_EQ(free_ranges(device, replay, 3).size(), 3U) << "with the segment that came";
}

TEST(Replay, MappedPagesGrowASegment) {
  DeviceSnapshot device;
  device.segments.push_back({.address = 0x1000000, .bytes = 4 * kMiB, .expandable = true});
  device.trace = {{Action::segment_map, 0x1000000 + 2 * kMiB, 2 * kMiB, 1, 0},
                  {Action::segment_map, 0x1000000 + 4 * kMiB, 2 * kMiB, 1, 0},
                  {Action::segment_unmap, 0x1000000 + 4 * kMiB, 2 * kMiB, 2, 0}};
  const Replay replay = play(device);
  EXPECT_THAT(replay.reserved, ::testing::ElementsAre(2 * kMiB, 4 * kMiB, 6 * kMiB, 4 * kMiB));
}

}  // namespace
}  // namespace snug::pytorch
