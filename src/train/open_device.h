// The device that a run asks for, opened before anything is planned for it.
#pragma once

#include <memory>
#include <string_view>

#include "hal/device.h"
#include "recipe/resolve.h"

namespace snug {

// None for --device null. Throws a device error when there is no such device, or when it cannot
// compute in the run's types.
std::unique_ptr<Device> open_device(const Resolved& run);

// Throws a device error when a GPU of this compute capability (9.0 is 90) has no such arithmetic.
void require_precision(Dtype precision, int capability, std::string_view gpu);

}  // namespace snug
