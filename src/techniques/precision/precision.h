// --precision: the pass that types the model's computation.
#pragma once

#include "ir/program.h"

namespace snug {

// Sets the type that the model computes in: parameters, keys and values that it caches, activations
// and what flows back. Statistics and losses stay fp32. graph -> graph.
void precision(Module& module, Dtype dtype);

}  // namespace snug
