// --compress: the pass that stores kept activations in fewer bits.
#pragma once

#include <string_view>

#include "ir/program.h"

namespace snug {

// Stores what forward keeps for backward as int8 in between, where no reader needs it exactly. The
// loss of a step stays the same; gradients change by what int8 rounds off. graph -> graph.
void compress(Module& module, std::string_view program);

}  // namespace snug
