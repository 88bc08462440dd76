// The link between a device and its host, measured: large copies of pinned memory each way, alone and
// both at once.
//
//   const auto device = cuda_device();
//   measured_link(*device).in;   // bytes per second, 55e9 on an H200
#pragma once

#include <functional>

#include "cost/device_catalogue.h"
#include "hal/device.h"

namespace snug {

// Takes 128 MiB on either side while it runs. `now` counts seconds.
Link measured_link(Device& device, const std::function<double()>& now);
Link measured_link(Device& device);

}  // namespace snug
