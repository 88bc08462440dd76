// Sums of squares of gradients that leave the device: made in backward, while they are there, so that
// the norm does not bring them back.
#pragma once

#include <map>

#include "passes/updates.h"

namespace snug {

// By gradient: a shared value with the sums of its blocks, as of the step's last micro-batch. Only
// for those whose home is elsewhere. Where a search asks about the update alone, nobody makes them.
std::map<ValueId, ValueId> sum_squares_in_backward(Module& module, const Updates& updates);

}  // namespace snug
