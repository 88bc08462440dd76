// A device without memory: it remembers sizes only. Plans, passes and the null executor run on it.
#pragma once

#include <memory>

#include "hal/device.h"

namespace snug {

std::unique_ptr<Device> null_device();

}  // namespace snug
