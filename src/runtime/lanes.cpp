#include "runtime/lanes.h"

#include <linux/futex.h>
#include <omp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <limits>

#include "ir/lifetime.h"

namespace snug {
namespace {

constexpr int32_t kAll = std::numeric_limits<int32_t>::max();

// How many ops of its lane have ended when `op` has.
int32_t ended_with(const Order& order, int32_t op) {
  const std::span<const int32_t> ops = order.ops_on(order.lane_of(op));
  return static_cast<int32_t>(std::ranges::lower_bound(ops, op) - ops.begin()) + 1;
}

}  // namespace

static_assert(sizeof(std::atomic<int32_t>) == sizeof(int32_t));  // what the system looks at

// The system sees a change between looking and sleeping, and then lets no thread sleep.
void LaneThreads::Ended::set(int32_t count) {
  ops = count;
  if (sleepers > 0)
    ::syscall(SYS_futex, &ops, FUTEX_WAKE_PRIVATE, std::numeric_limits<int>::max(), nullptr,
              nullptr, 0);
}

void LaneThreads::Ended::wait(int32_t count) {
  ++sleepers;
  ::syscall(SYS_futex, &ops, FUTEX_WAIT_PRIVATE, count, nullptr, nullptr, 0);
  --sleepers;
}

LaneThreads::LaneThreads(int32_t lanes)
    : ended_(static_cast<size_t>(lanes)), most_threads_(omp_get_max_threads()) {
  try {
    for (int32_t thread = 1; thread < lanes; ++thread)
      threads_.emplace_back([this, thread] { stay(thread); });
  } catch (...) {  // the system grants no more threads
    dismiss();
    throw;
  }
}

LaneThreads::~LaneThreads() { dismiss(); }

void LaneThreads::dismiss() {
  {
    const std::scoped_lock lock(mutex_);
    leaving_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void LaneThreads::run(const Order& order, const Work& work) {
  {
    const std::scoped_lock lock(mutex_);
    for (size_t lane = 0; lane <= threads_.size(); ++lane) ended_[lane].ops = 0;
    failed_ = false;
    failure_ = nullptr;
    order_ = &order;
    work_ = &work;
    own_lane_ = std::max(0, order.lane_index(kComputeLane));
    busy_ = static_cast<int32_t>(threads_.size());
    ++run_;
  }
  changed_.notify_all();
  run_lane(own_lane_);
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return busy_ == 0; });
  if (failure_) std::rethrow_exception(failure_);
}

// A thread's life: it sleeps until there is another run. How many threads an op may take is a fact of each
// thread, and begins as OpenMP's default.
void LaneThreads::stay(int32_t thread) {
  omp_set_num_threads(most_threads_);
  int64_t seen = 0;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return leaving_ || run_ > seen; });
      if (leaving_) return;
      seen = run_;
    }
    run_lane(thread == own_lane_ ? 0 : thread);
    {
      const std::scoped_lock lock(mutex_);
      --busy_;
    }
    changed_.notify_all();
  }
}

void LaneThreads::run_lane(int32_t lane) {
  if (lane >= order_->lanes()) return;
  int32_t ended = 0;
  try {
    for (const int32_t op : order_->ops_on(lane)) {
      for (const int32_t other : order_->waits(op)) wait_for(other);
      if (failed_) return;
      (*work_)(op);
      ended_[static_cast<size_t>(lane)].set(++ended);
    }
  } catch (...) {
    fail();
  }
}

void LaneThreads::wait_for(int32_t op) {
  Ended& ended = ended_[static_cast<size_t>(order_->lane_of(op))];
  const int32_t wanted = ended_with(*order_, op);
  for (int32_t now = ended.ops; now < wanted && !failed_; now = ended.ops) ended.wait(now);
}

// The first failure counts. No lane waits for one that has ended early.
void LaneThreads::fail() {
  {
    const std::scoped_lock lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
  }
  failed_ = true;
  for (size_t lane = 0; lane <= threads_.size(); ++lane) ended_[lane].set(kAll);
}

}  // namespace snug
