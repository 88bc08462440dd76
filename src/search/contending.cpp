#include "search/contending.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

namespace snug {
namespace {

constexpr size_t kFew = 3;

// Limits of the series, in one space: powers of a root of two, from the least that something needs to
// the most that anything uses; and the limit itself, which may have room for more than the last of them.
std::vector<int64_t> series(std::span<const Expected> all, Space space, int64_t limit) {
  const double per_doubling = space == Space::device ? 8 : 2;
  int64_t least = kUnlimited, most = 0;
  for (const Expected& e : all) {
    least = std::min(least, e.least[space]);
    most = std::max(most, e.least[space] + (space == Space::device ? e.offloaded : 0));
  }
  std::vector<int64_t> limits;
  const double first = std::ceil(per_doubling * std::log2(std::max<int64_t>(least, 1)));
  for (double i = first;; ++i) {
    const double bytes = std::exp2(i / per_doubling);
    if (bytes > static_cast<double>(std::min(limit, most))) break;
    limits.push_back(static_cast<int64_t>(bytes));
  }
  limits.push_back(std::min(limit, most));
  return limits;
}

// Of each variant its fastest; in rising order.
std::vector<std::pair<double, size_t>> seconds_by_variant(std::span<const Expected> all,
                                                          const Limits& limits) {
  std::vector<std::pair<double, size_t>> order;
  for (const Expected& e : all) {
    const double seconds = e.seconds_within(limits);
    if (std::isinf(seconds)) continue;
    if (order.empty() || order.back().second != e.variant)
      order.emplace_back(seconds, e.variant);
    else
      order.back().first = std::min(order.back().first, seconds);
  }
  std::ranges::sort(order);
  return order;
}

void add_fastest(std::span<const Expected> all, const Limits& limits, std::set<size_t>& found) {
  const auto order = seconds_by_variant(all, limits);
  for (size_t i = 0; i < std::min(kFew, order.size()); ++i) found.insert(order[i].second);
}

}  // namespace

double Expected::seconds(double on_device) const {
  return std::max(compute, (1 - on_device) * other) + (1 - on_device) * waiting;
}

double Expected::seconds_within(const Limits& limits) const {
  if (!least.fits_in(limits)) return std::numeric_limits<double>::infinity();
  const auto room = static_cast<double>(limits.left_by(least)[Space::device]);
  return seconds(offloaded == 0 ? 0 : std::min(1.0, room / static_cast<double>(offloaded)));
}

std::vector<size_t> contending(std::span<const Expected> all, const Limits& limits) {
  std::set<size_t> found;
  Limits smaller = limits;
  for (const int64_t device : series(all, Space::device, limits[Space::device])) {
    for (const int64_t host : series(all, Space::host, limits[Space::host])) {
      for (const int64_t disk : series(all, Space::disk, limits[Space::disk])) {
        smaller[Space::device] = device;
        smaller[Space::host] = host;
        smaller[Space::disk] = disk;
        add_fastest(all, smaller, found);
      }
    }
  }
  return {found.begin(), found.end()};
}

std::vector<size_t> within_reach(std::span<const size_t> variants, std::span<const Expected> all,
                                 const Limits& limits) {
  constexpr double kReach = 1.5;  // trials took 0.97 to 1.37 times what was expected
  std::vector<size_t> found;
  double fastest = 0;
  for (const auto& [seconds, variant] : seconds_by_variant(all, limits)) {
    if (std::ranges::find(variants, variant) == variants.end()) continue;
    if (found.empty()) fastest = seconds;
    if (seconds > kReach * fastest) break;
    found.push_back(variant);
  }
  std::ranges::sort(found);
  return found;
}

}  // namespace snug
