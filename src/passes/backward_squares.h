// Sums of squares of gradients that are offloaded: computed in backward, while they are on the device, so
// that the norm does not prefetch them.
#pragma once

#include <map>

#include "passes/updates.h"

namespace snug {

// By gradient: a shared value with the sums of its blocks, as of the step's last micro-batch. Only
// for those that are offloaded. Where a search asks about the update alone, there are none.
std::map<ValueId, ValueId> sum_squares_in_backward(Module& module, const Updates& updates);

}  // namespace snug
