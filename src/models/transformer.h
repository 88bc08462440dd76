// The forward pass of every transformer, from its ModelConfig: embedding, layers, norm, head and
// loss. Every residual addition is fused with the norm after it, or with the matmul before it.
#pragma once

#include "ir/forward.h"
#include "models/build_options.h"
#include "models/model_config.h"

namespace snug {

// Inputs: `tokens` i32[B,T] and `targets` i32[B,T] (a negative target does not count); where rows
// hold several samples also `starts` i32[B,T] (ops/packed_rows.h): no sample sees another, and
// positions count from its beginning; where dropout is on the i64 scalars `seed`, `step` and
// `sample`.
Forward build_transformer(const ModelConfig& config, const BuildOptions& options, Module& module,
                          std::string_view program, bool training);

}  // namespace snug
