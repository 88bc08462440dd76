// The forward pass of every transformer, from its parts: embedding, stacks of blocks, head and loss.
// Every residual addition is fused with the norm after it, or with the matmul before it.
#pragma once

#include <vector>

#include "ir/forward.h"
#include "models/parts/inputs.h"
#include "models/parts/model_parts.h"
#include "settings/build_options.h"

namespace snug {

// `tokens` i32[B,T] and `targets` i32[B,T]; where rows hold several samples also `starts` i32[B,T]
// (ops/packed_rows.h): no sample sees another, and positions count from its beginning.
std::vector<Input> transformer_inputs(bool packed);
// Where dropout is on it also reads the i64 scalars `seed`, `step` and `sample`.
Forward build_transformer(const ModelParts& model, const BuildOptions& options, Module& module,
                          std::string_view program, bool training);

// The same layers over the next tokens of a sequence, whose earlier keys and values are in caches
// that the module's programs share: "layers.3.attn.keys" and "layers.3.attn.values", [1,N,K,D].
struct CachedOptions {
  int64_t tokens = 1;     // that a run takes
  int64_t positions = 0;  // N, of the caches
  bool logits = true;     // of the last token; else a run only fills the caches
  bool residual_in_matmul = false;
};
// Inputs: PROGRAM.tokens and PROGRAM.starts, i32[1,tokens]; every start is less than 0 by the tokens
// before. Gives the logits [1,1,V], or none.
ValueId build_cached_transformer(const ModelParts& model, const CachedOptions& options,
                                 Module& module, std::string_view program);

}  // namespace snug
