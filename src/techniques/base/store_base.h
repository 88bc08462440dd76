// --base-dtype: the pass that stores frozen weights in fewer bits.
#pragma once

#include "ir/program.h"
#include "techniques/base/settings.h"

namespace snug {

// Quantizes the frozen weights of the layers; every reader has its own copy, dequantized just before.
// graph -> graph.
void store_base(Module& module, BaseKind kind);

}  // namespace snug
