// The layers of a model in a trace: one line of a forward function that is called again and again,
// and which allocations each call made.
#pragma once

#include <cstdint>
#include <vector>

#include "pytorch/owners.h"

namespace snug::pytorch {

struct LayerCall {
  int64_t end = 0;           // the moment at which its forward has ended
  std::vector<size_t> made;  // allocations, by index into the replay's
};

// In the order of their calls, over all steps. Empty where nothing is called twice in a step.
std::vector<LayerCall> layer_calls(const Snapshot& snapshot, const Replay& replay,
                                   const Steps& steps, const std::vector<StackFacts>& stacks,
                                   const std::vector<Owner>& owners);

}  // namespace snug::pytorch
