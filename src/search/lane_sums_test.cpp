#include "search/lane_sums.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "cost/step_cost.h"
#include "ir/toy_ops.h"

namespace snug {
namespace {

TEST(LaneSums, AddUpLaneByLane) {
  LaneSums sums;
  EXPECT_EQ(sums.compute() + sums.other(), 0);
  sums.add("compute", 3);
  sums.add("copy_in", 2);
  sums.add("copy_out", 4);
  sums.add("copy_in", 3);
  sums.add("compute", 1);
  EXPECT_EQ(sums.compute(), 4);
  EXPECT_EQ(sums.other(), 5);
}

// A sum over all lanes is none: copies overlap compute.
TEST(LaneSums, AreALowerBoundOfEveryProgram) {
  constexpr const char* kLanes[] = {"compute", "copy_in", "copy_out"};
  std::mt19937 random(11);
  int hidden = 0;
  for (int round = 0; round < 50; ++round) {
    toy::Fixture f;
    std::vector<ValueId> made{f.x};
    std::vector<double> seconds;
    LaneSums sums;
    double all = 0;
    for (int op = 0; op < 20; ++op) {
      const char* lane = kLanes[random() % 3];
      made.push_back(f.unary_on(lane, fmt::format("op{}", op), made[random() % made.size()]));
      seconds.push_back(static_cast<double>(random() % 50));
      sums.add(lane, seconds.back());
      all += seconds.back();
    }
    const double step = seconds_on_lanes(f.module, f.module.program("p"), seconds);
    EXPECT_LE(std::max(sums.compute(), sums.other()), step);
    hidden += step < all ? 1 : 0;
  }
  EXPECT_GT(hidden, 25);
}

}  // namespace
}  // namespace snug
