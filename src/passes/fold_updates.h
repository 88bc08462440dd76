// Updates that are folded into the next step: where all gradients must be known before the first
// parameter moves, as for clipping, a layer's update waits until the next forward is about to use
// the layer, and what it has to bring and put back is on its way meanwhile.
#pragma once

#include "ir/builder.h"
#include "passes/updates.h"

namespace snug {

// Is it worth waiting? What belongs to no layer is used at once, and what is all on the device has
// nothing to bring.
bool folds(const Module& module, const Updates& updates, const Updates::Trained& t);

// `update`: the program of the step's end, which keeps its numbers for the folded updates. They are
// made in micro_first, spread over the forward ops of the layer before theirs, and by the program
// `flush` where somebody looks at the parameters in between; whoever comes second does nothing.
void fold_updates(Builder& update, const Updates& updates, const Updates::Numbers& numbers);

}  // namespace snug
