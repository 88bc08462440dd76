// The choice of techniques and their settings that passes read: what the user asked for, or what
// the search chose.
#pragma once

#include <cstdint>

#include "ir/op_def.h"
#include "passes/recompute_policy.h"

namespace snug {

struct Recipe {
  int64_t accum = 1;  // micro-batches per step
  RecomputePolicy recompute;
  double beta1 = 0.9;
  double beta2 = 0.95;
  double eps = 1e-8;
  double weight_decay = 0.1;  // on matrices and embeddings; never on norms and biases
  double clip = 1.0;          // the largest global gradient norm; 0: no clipping
  Backend backend = Backend::cpu;
};

}  // namespace snug
