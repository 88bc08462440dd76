// --host-update: the pass that lets the host compute updates of offloaded state.
#pragma once

#include "ir/program.h"
#include "settings/recipe.h"

namespace snug {

// Moves the updates that the recipe names to the host, where their state is offloaded, and copies
// what they use of the device there and back. Results stay the same bit for bit. Before
// `offload_values`. graph -> graph.
void update_on_host(Module& module, const Recipe& recipe);

}  // namespace snug
