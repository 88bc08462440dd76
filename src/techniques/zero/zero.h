// --zero: what data-parallel ranks sum, and what each has only a shard of.
#pragma once

#include "ir/program.h"
#include "settings/recipe.h"

namespace snug {

// Sums gradients and losses over the ranks of the job, or over micro-batches apart (Recipe::sharding,
// sums_apart). Gradients of which a rank has only its shard become that. graph -> graph.
void sum_over_ranks(Module& module, const Recipe& recipe);

// Parameters of which a rank has only its shard become that; what ops read is a whole that
// `offload_values` gathers. graph -> graph.
void shard_parameters(Module& module, const Recipe& recipe);

}  // namespace snug
