// --optimizer: the pass that adds the program `update`.
#pragma once

#include "ir/program.h"
#include "settings/recipe.h"

namespace snug {

// Adds the program `update`: global norm, clipping, and the recipe's optimizer on every trainable
// parameter; masters, optimizer states, and the program `load` where there are masters. graph ->
// graph.
void optimizer(Module& module, const Recipe& recipe);

}  // namespace snug
