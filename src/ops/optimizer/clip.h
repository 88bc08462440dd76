// Global-norm clipping, and the optimizer's own step count.
//
//   Clip c = clip(b, "clip", sum_squares(b, "norm", grads), /*max_norm=*/1.0);
//   ValueId step = advance(b, "step", count, c.finite);   // a step that is skipped is not counted
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef sum_squares_def;  // (grads...) -> f64[]
extern const OpDef clip_def;         // (sum_squares) -> (norm, scale, finite)
extern const OpDef advance_def;      // (counter) -> counter'

// Summed in double over fixed blocks, in the order given.
ValueId sum_squares(Builder& b, std::string_view name, std::vector<ValueId> grads);

struct Clip {
  ValueId norm;    // f32[]
  ValueId scale;   // f32[]: min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_
  ValueId finite;  // i32[]: 1; 0 where the norm is inf or nan, and scale is then 1
};
// max_norm <= 0: no clipping, scale is 1.
Clip clip(Builder& b, std::string_view name, ValueId sum_squares, double max_norm);

// counter (i64[]) += 1, unless the predicate (i32[]) is 0.
ValueId advance(Builder& b, std::string_view name, ValueId counter, ValueId predicate = {});

}  // namespace snug::ops
