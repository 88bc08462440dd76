// The device that a run asks for, opened before anything is planned for it.
#pragma once

#include <memory>

#include "hal/device.h"
#include "train/resolve.h"

namespace snug {

// None for --device null. Throws a device error when there is no such device, or when it cannot
// compute in the run's types.
std::unique_ptr<Device> open_device(const Resolved& run);

}  // namespace snug
