// Updates that are folded into the next step: where all gradients must be known before the first
// parameter moves, as for clipping, a layer's update waits until the next forward is about to use
// the layer, and its transfers overlap compute.
//
// What belongs to no layer is used at once (embeddings). Where its state is in host memory, it is
// updated twice from the same numbers: at the end of the step its weight alone, from what was
// prefetched during the last backward and is dropped then; and in the next step its master and state,
// which are evicted during its backward.
#pragma once

#include "ir/builder.h"
#include "passes/updates.h"

namespace snug {

// Is it worth waiting? What is all on the device needs no transfer; and what belongs to no layer
// waits where its weight does not.
bool folds(const Module& module, const Updates& updates, const Updates::Trained& t);

// One slice of an update whose master and state are dropped: the weight remains.
void emit_weight(Builder& b, const Updates& updates, const Updates::Trained& t,
                 const Updates::Slice& slice, const Updates::Numbers& numbers);

// `update`: the program of the step's end, which keeps its numbers for the folded updates. They are
// made in micro_first, spread over the forward ops of the layer before theirs (of no layer: over its
// backward), and by the program `flush` where the parameters are read in between; the second
// of the two does nothing. `step_only`: without `flush` (Recipe::step_only).
void fold_updates(Builder& update, const Updates& updates, const Updates::Numbers& numbers,
                  bool step_only);

}  // namespace snug
