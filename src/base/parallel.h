// Independent work on all of the machine's cores.
//
//   for_each_in_parallel(n, [&](size_t i) { results[i] = compute(i); });
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

namespace snug {

inline size_t cores() { return std::max(1U, std::thread::hardware_concurrency()); }

// Calls visit(i) for every i below `count`, once each, on as many threads as there are cores. When
// all have ended, throws what the first of them threw.
template <typename Visit>
void for_each_in_parallel(size_t count, const Visit& visit) {
  std::atomic<size_t> next = 0;
  std::exception_ptr failure;
  std::mutex mutex;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      try {
        visit(i);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next = count;
      }
    }
  };
  {
    std::vector<std::jthread> others;
    try {
      for (size_t t = 1; t < std::min(count, cores()); ++t) others.emplace_back(work);
    } catch (const std::system_error&) {  // fewer, then
    }
    work();
  }
  if (failure) std::rethrow_exception(failure);
}

}  // namespace snug
