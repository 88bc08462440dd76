#include "base/timed_test.h"

#include <gtest/gtest.h>

#include <vector>

namespace snug {
namespace {

std::vector<int> ones(int n) { return std::vector<int>(static_cast<size_t>(n), 1); }

TEST(Growth, DistinguishesLinearFromQuadraticTime) {
  volatile int sum = 0;
  const auto add_all = [&](const std::vector<int>& x) {
    for (const int v : x) sum = sum + v;
  };
  const auto add_all_for_each = [&](const std::vector<int>& x) {
    for (size_t i = 0; i < x.size(); ++i) add_all(x);
  };
  EXPECT_LT(growth_by_8(50'000, ones, add_all), kLinearGrowth);
  EXPECT_GT(growth_by_8(400, ones, add_all_for_each), kLinearGrowth);
}

TEST(WithMoreTime, RetriesAndGivesUp) {
  EXPECT_TRUE(with_more_time([](std::chrono::milliseconds time) { return time.count() > 1000; }));
  EXPECT_FALSE(with_more_time([](std::chrono::milliseconds) { return false; }));
}

}  // namespace
}  // namespace snug
