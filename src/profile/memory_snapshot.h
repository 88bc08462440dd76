// The arena over a step as the snapshot that PyTorch's memory viewer opens: a pickle whose blocks and
// events are our values, coloured by category.
#pragma once

#include <string>
#include <vector>

#include "ir/program.h"
#include "ir/span.h"

namespace snug {

// Of the device's arena. Every program of a step once, in order; `spans` say when its ops ran.
std::string memory_snapshot_pickle(const Module& placed, const std::vector<Span>& spans);

}  // namespace snug
