// The lanes of a program on a machine without streams: a thread each, which waits exactly where
// Order says.
//
//   LaneThreads threads(order.lanes());
//   threads.run(order, [&](int32_t op) { ... });   // returns when every op has run
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "ir/order.h"

namespace snug {

class LaneThreads {
 public:
  using Work = std::function<void(int32_t op)>;

  // What computes runs on the caller's own thread, where OpenMP has its team; the other lanes have a
  // thread each, asleep between runs, and as many OpenMP threads as the caller.
  explicit LaneThreads(int32_t lanes);
  ~LaneThreads();
  LaneThreads(const LaneThreads&) = delete;
  LaneThreads& operator=(const LaneThreads&) = delete;

  // Calls work(op) for every op. When one throws, no lane starts another, and it is thrown here.
  void run(const Order& order, const Work& work);

 private:
  void dismiss();
  void stay(int32_t thread);
  void run_lane(int32_t lane);
  void wait_for(int32_t op);
  void fail();

  // How many ops of a lane have ended. Apart, so that lanes do not wait for each other's cache lines.
  // std::atomic's own wait yields first, and a thread that yields to one that computes has the core
  // back when that one's slice ends, milliseconds later; a sleeper is woken at once.
  struct alignas(64) Ended {
    std::atomic<int32_t> ops = 0;
    std::atomic<int32_t> sleepers = 0;
    void set(int32_t count);
    void wait(int32_t count);  // until it is another
  };
  std::vector<Ended> ended_;
  std::atomic<bool> failed_ = false;
  std::exception_ptr failure_;

  std::mutex mutex_;
  std::condition_variable changed_;
  const int most_threads_;
  // Under the mutex: what to run, which lane is the caller's, the number of the run, and how many threads are at it.
  const Order* order_ = nullptr;
  const Work* work_ = nullptr;
  int32_t own_lane_ = 0;
  int64_t run_ = 0;
  int32_t busy_ = 0;
  bool leaving_ = false;

  std::vector<std::thread> threads_;
};

}  // namespace snug
