// The lanes of a device, by name: the compute lane is its first, and programs share the others.
//
//   const int32_t copies = lanes.number_of("copy_in");
//   lanes.fork({&copies, 1});   // it begins after what lane 0 was given
//   ...
//   lanes.join({&copies, 1});   // lane 0 goes on when it has ended
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "hal/device.h"

namespace snug {

class DeviceLanes {
 public:
  explicit DeviceLanes(Device& device) : device_(device) {}

  int32_t number_of(std::string_view name);  // a new one where no lane has this name
  size_t count() const { return names_.size(); }
  void fork(std::span<const int32_t> lanes);
  void join(std::span<const int32_t> lanes);

 private:
  Device& device_;
  std::vector<std::string> names_ = {"compute"};
  // That of lane 0 is where the others begin, those of the others are where they end; none where
  // there is one lane.
  std::vector<std::unique_ptr<LaneEvent>> events_;
};

}  // namespace snug
