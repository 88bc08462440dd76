#include "search/largest.h"

#include <gtest/gtest.h>

#include <cmath>

namespace snug {
namespace {

struct Answer {
  Largest found;
  int asked = 0;
};

Answer ask(const LargestQuestion& question, const std::function<int64_t(int64_t)>& need) {
  Answer answer;
  answer.found = find_largest(question, [&](int64_t n) {
    EXPECT_GE(n, 1);
    EXPECT_LE(n, question.limit);
    ++answer.asked;
    return on_device(need(n));
  });
  return answer;
}

TEST(FindLargest, MatchesLinearScanForAnyCurve) {
  const std::vector<std::function<int64_t(int64_t)>> curves{
      [](int64_t n) { return 1000 + 37 * n; },
      [](int64_t n) { return 5 + n * n * n; },
      [](int64_t n) { return 900 + n / 7 * 40; },           // steps
      [](int64_t n) { return n < 50 ? 800 : 60 * n * n; },  // flat, then steep
      [](int64_t n) { return static_cast<int64_t>(100 * std::log(static_cast<double>(n) + 1)); },
  };
  for (const auto& need : curves) {
    for (int64_t bytes = 0; bytes < 4000; bytes += 97) {
      for (const int64_t start : {1, 8, 200}) {
        const LargestQuestion question{.start = start, .limit = 200, .bytes = on_device(bytes)};
        int64_t expected = 0;
        while (expected < 200 && need(expected + 1) <= bytes) ++expected;
        const Largest found = ask(question, need).found;
        ASSERT_EQ(found.n, expected) << "bytes " << bytes << " start " << start;
        if (expected > 0) {
          EXPECT_EQ(found.need, on_device(need(expected)));
        }
        EXPECT_EQ(found.next_need.has_value(), expected < 200);
        if (found.next_need) {
          EXPECT_EQ(*found.next_need, on_device(need(expected + 1)));
        }
      }
    }
  }
}

TEST(FindLargest, NeedsFewTrialsForPowerLaws) {
  const int64_t budget = int64_t{24} << 30;
  const auto batch = [](int64_t n) { return (int64_t{5} << 30) + n * 13'000'001; };
  EXPECT_LE(ask({.start = 8, .limit = 1 << 30, .bytes = on_device(budget)}, batch).asked, 6);
  const auto model = [](int64_t n) { return (int64_t{1} << 30) + n * n * n * 70'001; };
  EXPECT_LE(
      ask({.start = 32, .limit = 1 << 20, .bytes = on_device(budget), .power = 3}, model).asked, 6);
}

TEST(FindLargest, LimitMayBeResult) {
  const auto found =
      ask({.start = 4, .limit = 9, .bytes = on_device(100)}, [](int64_t n) { return n; }).found;
  EXPECT_EQ(found.n, 9);
  EXPECT_EQ(found.need, on_device(9));
  EXPECT_FALSE(found.next_need);
}

TEST(FindLargest, ReportsNeedOfOneWhereNothingFits) {
  const auto found =
      ask({.start = 8, .limit = 99, .bytes = on_device(5)}, [](int64_t n) { return 10 * n; }).found;
  EXPECT_EQ(found.n, 0);
  EXPECT_EQ(found.next_need, on_device(10));
}

// Ten bytes of the device each, and beyond five of them a hundred of the host.
TEST(FindLargest, EverySpaceHasItsLimit) {
  const auto need = [](int64_t n) { return SpaceBytes{{10 * n, n > 5 ? 100 * n : 0, 0}}; };
  const auto largest = [&](const Limits& limits) {
    return find_largest({.start = 8, .limit = 99, .bytes = limits}, need).n;
  };
  EXPECT_EQ(largest({{300, kUnlimited, 0}}), 30);
  EXPECT_EQ(largest({{300, 1234, 0}}), 12);
  EXPECT_EQ(largest({{300, 0, kUnlimited}}), 5);
  EXPECT_EQ(largest({{40, 0, 0}}), 4);
}

}  // namespace
}  // namespace snug
