// The plans that differ from one in a single thing: where an item of the state or the activations live, the
// prefetch distance, what the host's cores update, how much is recomputed. Only what is open changes.
//
//   for (const PlanToTry& other : neighbours_of(tried)) ...
#pragma once

#include <vector>

#include "search/offload_refinement.h"

namespace snug {

std::vector<PlanToTry> neighbours_of(const TriedPlan& tried);

}  // namespace snug
