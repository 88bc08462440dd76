// Ranks that share every matrix of a model: passes and facts.
//
//   Forward training = tensor_parallel(module, "micro_first", forward, recipe.mesh);
//   ...                          // backward, micro-batches
//   sum_over_tensor_ranks(module, recipe);
#pragma once

#include <string_view>

#include "ir/forward.h"
#include "passes/mesh.h"
#include "settings/recipe.h"

namespace snug {

// Cuts parameters and ops of a forward program over the ranks of the mesh's tensor axis, and inserts the
// collectives. Throws a usage error where sizes do not divide, or an op cannot be cut. Before backward.
Forward tensor_parallel(Module& module, std::string_view program, Forward forward,
                        const Mesh& mesh);

// Throws a usage error where the tokens of a micro-batch do not divide over the tensor ranks.
void require_tokens_divide(int64_t batch, int64_t length, const Mesh& mesh);

// Turns sums over the tensor ranks into exchanges and sums in the order of the ranks. After backward and
// recompute. graph -> graph.
void lower_tensor_sums(Module& module, const Mesh& mesh);

// Adds up the gradients of which every rank has a part, once a step: of parameters that see only its
// tokens, and of keys and values that several ranks have. After the sums over data. graph -> graph.
void sum_over_tensor_ranks(Module& module, const Recipe& recipe);

}  // namespace snug
