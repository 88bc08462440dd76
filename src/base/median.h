// The middle of measured values; of an even number of them, the upper of the two in the middle.
#pragma once

#include <algorithm>
#include <vector>

namespace snug {

// Of at least one value.
inline double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace snug
