// Seconds of ops, summed by lane: no step is shorter than the largest sum, whatever waits for what.
#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "ir/lifetime.h"

namespace snug {

class LaneSums {
 public:
  void add(std::string_view lane, double seconds) {
    if (lane == kComputeLane)
      compute_ += seconds;
    else
      others_[std::string(lane)] += seconds;
  }

  double compute() const { return compute_; }
  // The largest of the other lanes.
  double other() const {
    double largest = 0;
    for (const auto& [lane, seconds] : others_) largest = std::max(largest, seconds);
    return largest;
  }

 private:
  double compute_ = 0;
  std::map<std::string, double> others_;
};

}  // namespace snug
