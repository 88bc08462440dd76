// The device that a run asks for, opened before anything is planned for it.
#pragma once

#include <memory>

#include "hal/device.h"
#include "recipe/resolve.h"

namespace snug {

// None for --device null. Throws a device error when there is no such device.
// `gpu`: which of this machine's, from 0.
std::unique_ptr<Device> open_device(const Resolved& run, int gpu = 0);

}  // namespace snug
