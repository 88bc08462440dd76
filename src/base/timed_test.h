// For tests of what takes time: neither a slow machine nor a loaded one makes them fail.
#pragma once

#include <algorithm>
#include <chrono>
#include <ctime>
#include <limits>

namespace snug {

// Where nothing shows that something has happened: does an attempt succeed that is given more time?
template <typename Attempt>
bool with_more_time(const Attempt& attempt) {
  for (const int ms : {300, 3'000, 20'000})
    if (attempt(std::chrono::milliseconds(ms))) return true;
  return false;
}

// How many times the time of work(make(n)) that of work(make(8 * n)) is: 8 where it is linear, 64 where
// it is quadratic. In processor time of this process, the least of ten.
template <typename Make, typename Work>
double growth_by_8(int n, const Make& make, const Work& work) {
  const auto least = [&](int size) {
    std::clock_t best = std::numeric_limits<std::clock_t>::max();
    for (int i = 0; i < 10; ++i) {
      auto input = make(size);
      const std::clock_t start = std::clock();
      work(input);
      best = std::min(best, std::clock() - start);
    }
    return static_cast<double>(std::max<std::clock_t>(best, 1));
  };
  return least(8 * n) / least(n);
}
constexpr double kLinearGrowth = 24;  // at most: a factor of 3 for caches and noise

}  // namespace snug
