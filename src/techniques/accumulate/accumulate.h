// --accum: the pass that makes a step of several micro-batches.
#pragma once

#include "ir/program.h"
#include "settings/recipe.h"

namespace snug {

// Micro-batches: micro_first overwrites gradients and loss, micro_next (a copy of it) adds to them;
// each takes as many micro-batches through the layers as the recipe says.
// Where backward or its end updates, the last micro-batches are a program of their own, micro_last.
// graph -> graph.
void accumulate(Module& module, const Recipe& recipe);

}  // namespace snug
