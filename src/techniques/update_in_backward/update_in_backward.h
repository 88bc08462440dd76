// --update-in-backward: parameters are updated as soon as their gradients are complete.
#pragma once

#include "ir/program.h"
#include "settings/recipe.h"

namespace snug {

// `optimizer` without a program of its own: each parameter is updated in backward as soon as its
// gradient is complete. Nothing may wait for the norm of all gradients: no clipping, no dynamic
// loss scale. graph -> graph.
void update_in_backward(Module& module, const Recipe& recipe);

}  // namespace snug
