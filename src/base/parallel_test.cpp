#include "base/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "base/memo.h"

namespace snug {
namespace {

TEST(Parallel, VisitsEachOnce) {
  std::vector<std::atomic<int>> visits(1000);
  for_each_in_parallel(visits.size(), [&](size_t i) { ++visits[i]; });
  for (const auto& n : visits) EXPECT_EQ(n, 1);
  for_each_in_parallel(0, [](size_t) { FAIL(); });
}

TEST(Parallel, RethrowsFailures) {
  EXPECT_THROW(for_each_in_parallel(100,
                                    [](size_t i) {
                                      if (i == 7) throw std::runtime_error("seven");
                                    }),
               std::runtime_error);
}

TEST(Memo, ComputesOnceForAllCallers) {
  Memo<int, int> memo;
  std::atomic<int> made = 0;
  for_each_in_parallel(64, [&](size_t i) {
    const int key = static_cast<int>(i % 4);
    const int& value = memo.of(key, [&] {
      ++made;
      return key == 0 ? 100 : memo.of(0, [&] { return ++made, 100; }) + key;  // asks for another
    });
    EXPECT_EQ(value, 100 + key);
  });
  EXPECT_EQ(made, 4);
}

TEST(Memo, FailsForAllCallers) {
  Memo<int, int> memo;
  for (int i = 0; i < 2; ++i)
    EXPECT_THROW(memo.of(1, []() -> int { throw std::runtime_error("no"); }), std::runtime_error);
}

}  // namespace
}  // namespace snug
