#include "runtime/device_lanes.h"

#include <algorithm>

namespace snug {

int32_t DeviceLanes::number_of(std::string_view name) {
  const auto found = std::ranges::find(names_, name);
  const auto lane = static_cast<int32_t>(found - names_.begin());
  if (found == names_.end()) {
    names_.emplace_back(name);
    while (events_.size() < names_.size()) events_.push_back(device_.make_event());
  }
  return lane;
}

void DeviceLanes::fork(std::span<const int32_t> lanes) {
  if (!lanes.empty()) events_[0]->record(0);
  for (const int32_t lane : lanes) events_[0]->wait(lane);
}

void DeviceLanes::join(std::span<const int32_t> lanes) {
  for (const int32_t lane : lanes) {
    LaneEvent& end = *events_[static_cast<size_t>(lane)];
    end.record(lane);
    end.wait(0);
  }
}

}  // namespace snug
