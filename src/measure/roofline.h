// Each op of a step compared with what the device could do: matmuls and attention alone, back to
// back; everything else at the speed of a copy.
#pragma once

#include "recipe/resolve.h"
#include "snug/bench.h"

namespace snug {

// Throws as require_gpu does.
RooflineReport measure_roofline(const Resolved& run);

}  // namespace snug
