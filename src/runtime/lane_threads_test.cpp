// The threads that lanes run on where there are no streams.
#include <gtest/gtest.h>
#include <omp.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>

#include "base/timed_test.h"
#include "ir/lifetime.h"
#include "runtime/lanes.h"
#include "runtime/testing/lane_program.h"

namespace snug {
namespace {

using testing_ops::LaneProgram;

// --threads counts on every lane, and what computes has the caller's team, also where another lane's op
// comes first in the list.
TEST(LaneThreads, OpsUseThreadCountOfCaller) {
  const int before = omp_get_max_threads();
  for (const int threads : {before + 1, before + 2}) {
    omp_set_num_threads(threads);
    for (unsigned seed = 0; seed < 8; ++seed) {
      LaneProgram f(seed);
      f.placed();
      const Program& program = f.module.program("p");
      const Order order(f.module, program);
      LaneThreads lanes(order.lanes());
      std::mutex mutex;
      lanes.run(order, [&, caller = std::this_thread::get_id()](int32_t op) {
        const std::scoped_lock lock(mutex);
        EXPECT_EQ(omp_get_max_threads(), threads);
        EXPECT_EQ(std::this_thread::get_id() == caller,
                  program.ops[static_cast<size_t>(op)].lane == kComputeLane);
      });
    }
  }
  omp_set_num_threads(before);
}

TEST(LaneThreads, FailureEndsRunAndIsReportedOnce) {
  LaneProgram f(5);
  f.placed();
  const Order order(f.module, f.module.program("p"));
  ASSERT_GT(order.lanes(), 2);
  LaneThreads threads(order.lanes());
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> ran = 0;
    const auto fails = [&](int32_t op) {
      ++ran;
      if (op == 10 + round) throw std::runtime_error("broken");
    };
    EXPECT_THROW(threads.run(order, fails), std::runtime_error);
    ran = 0;
    threads.run(order, [&](int32_t) { ++ran; });
    EXPECT_EQ(ran, static_cast<int>(f.module.program("p").ops.size()));
  }
}

// Nothing shows when all lanes are told.
TEST(LaneThreads, FailureDuringOtherOpsEndsRun) {
  LaneProgram f(5);
  f.placed();
  const Program& program = f.module.program("p");
  const Order order(f.module, program);
  LaneThreads threads(order.lanes());
  const bool no_lane_begins_another = with_more_time([&](std::chrono::milliseconds told) {
    std::atomic<bool> failed = false;
    std::atomic<int> begun = 0, late = 0;
    const auto fails = [&](int32_t op) {
      if (program.ops[static_cast<size_t>(op)].lane == kComputeLane) {
        while (begun == 0) std::this_thread::yield();
        failed = true;
        throw std::runtime_error("broken");
      }
      ++begun;
      while (!failed) std::this_thread::yield();
      std::this_thread::sleep_for(told);
      ++late;
    };
    EXPECT_THROW(threads.run(order, fails), std::runtime_error);
    EXPECT_GT(late, 0);
    return late < order.lanes();
  });
  EXPECT_TRUE(no_lane_begins_another);
}

}  // namespace
}  // namespace snug
