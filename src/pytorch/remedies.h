// What changes to the script would save: the trace is played again with the allocations that a
// change touches smaller, or freed and made again.
#pragma once

#include <vector>

#include "pytorch/findings.h"

namespace snug::pytorch {

// Those that save more than a hundredth of the peak, what saves most first.
std::vector<Remedy> remedies_of(const Snapshot& snapshot, const Replay& replay, const Steps& steps,
                                const std::vector<StackFacts>& stacks,
                                const std::vector<Owner>& owners);

}  // namespace snug::pytorch
