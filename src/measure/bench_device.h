// The device of both benches.
#pragma once

#include <string>

#include "recipe/resolve.h"

namespace snug {

// The GPU's name. Throws a usage error for another --device, a device error where there is no GPU.
std::string require_gpu(const Resolved& run);

}  // namespace snug
