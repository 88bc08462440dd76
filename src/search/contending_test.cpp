#include "search/contending.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/rng.h"

namespace snug {
namespace {

using ::testing::ElementsAre;

TEST(Contending, SpareBytesReduceOffload) {
  const Expected e{
      .least = {{100, 50, 0}}, .offloaded = 40, .compute = 2, .other = 3, .waiting = 1};
  EXPECT_TRUE(std::isinf(e.seconds_within(device_limit(99))));
  EXPECT_EQ(e.seconds_within(device_limit(100)), 4);
  EXPECT_EQ(e.seconds_within(device_limit(120)), 2.5) << "the other lane has half as much to do";
  EXPECT_EQ(e.seconds_within(device_limit(1000)), 2);
  EXPECT_TRUE(std::isinf(e.seconds_within(SpaceBytes{{1000, 49, 0}})));
}

TEST(Contending, AreTheFastestWithinSomeLimits) {
  std::vector<Expected> all;
  for (size_t v = 0; v < 6; ++v)  // the more bytes, the faster
    all.push_back({.variant = v,
                   .least = on_device(int64_t{1000} << v),
                   .compute = 10 - static_cast<double>(v)});
  all.push_back({.variant = 6, .least = on_device(32000), .compute = 20});
  EXPECT_THAT(contending(all, device_limit(999)), ElementsAre());
  EXPECT_THAT(contending(all, device_limit(1000)), ElementsAre(0)) << "no limit of the series";
  EXPECT_THAT(contending(all, device_limit(9000)), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(contending(all, kNoLimits), ElementsAre(0, 1, 2, 3, 4, 5)) << "6 is slower than 5";
}

TEST(Contending, FitInExactLimitSuffices) {
  const std::vector<Expected> all{{.variant = 0, .least = on_device(1000), .compute = 9},
                                  {.variant = 1, .least = on_device(8950), .compute = 1},
                                  {.variant = 2, .least = on_device(20000), .compute = 1}};
  EXPECT_THAT(contending(all, device_limit(9000)), ElementsAre(0, 1)) << "8933 is of the series";
}

// Whatever contends within some limits of the series does within larger ones.
TEST(Contending, MoreBytesLeaveNothingOut) {
  uint64_t state = 7;
  const auto draw = [&](int64_t most) {
    state = mix(state);
    return static_cast<int64_t>(state % static_cast<uint64_t>(most));
  };
  std::vector<Expected> all;
  for (size_t v = 0; v < 40; ++v)
    all.push_back({.variant = v,
                   .least = {{1 + draw(1000), draw(1000), draw(500)}},
                   .offloaded = draw(500),
                   .compute = static_cast<double>(1 + draw(100)),
                   .other = static_cast<double>(draw(200)),
                   .waiting = static_cast<double>(draw(50))});
  for (const Space space : kAllSpaces) {
    std::vector<size_t> before;
    for (int64_t limit = 16; limit <= 4096; limit *= 2) {  // each is one of the series
      Limits limits = SpaceBytes{{700, 700, 300}};
      limits[space] = limit;
      const std::vector<size_t> now = contending(all, limits);
      EXPECT_TRUE(std::ranges::includes(now, before)) << limit;
      before = now;
    }
    EXPECT_FALSE(before.empty());
  }
}

TEST(Contending, FarSlowerCandidatesAreOutOfReach) {
  const std::vector<Expected> all{{.variant = 1, .least = on_device(500), .compute = 10},
                                  {.variant = 2, .least = on_device(100), .compute = 14},
                                  {.variant = 2, .least = on_device(50), .compute = 30},
                                  {.variant = 3, .least = on_device(100), .compute = 16},
                                  {.variant = 4, .least = on_device(100), .compute = 1}};
  const std::vector<size_t> some{1, 2, 3};
  EXPECT_THAT(within_reach(some, all, device_limit(500)), ElementsAre(1, 2)) << "4 is not asked of";
  EXPECT_THAT(within_reach(some, all, device_limit(400)), ElementsAre(2, 3)) << "1 does not fit";
  EXPECT_THAT(within_reach(some, all, device_limit(99)), ElementsAre(2));
  EXPECT_THAT(within_reach(some, all, device_limit(10)), ElementsAre());
}

}  // namespace
}  // namespace snug
