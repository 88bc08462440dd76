// --offload: the pass that moves values to host memory or disk, and copies them back for their uses.
#pragma once

#include "ir/program.h"
#include "settings/recipe.h"

namespace snug {

// Moves the values that the recipe offloads to their space, and copies them to the device and back
// around their uses, in every program. Results stay the same bit for bit. graph -> graph.
void offload_values(Module& module, const Recipe& recipe);

}  // namespace snug
