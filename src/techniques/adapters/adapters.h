// --lora: the passes of low-rank adapters.
#pragma once

#include <string_view>

#include "ir/program.h"
#include "techniques/adapters/settings.h"

namespace snug {

// Freezes the model's parameters and adds low-rank adapters to its linear layers. Before backward
// exists. Throws a usage error where a target is in no layer. graph -> graph.
void adapters(Module& module, const Adapters& adapters);

// Lets the GEMM of a frozen layer that narrows add to the gradient that its adapter makes of the same
// value, not the other way round. graph -> graph.
void adapter_gradients_first(Module& module, std::string_view program);

}  // namespace snug
