// Global-norm clipping, and the optimizer's own step count.
//
//   std::vector<ValueId> squares;
//   for (ValueId grad : grads) squares.push_back(sum_squares(b, "squares", grad));
//   Clip c = clip(b, "clip", squares, /*max_norm=*/1.0);
//   ValueId step = advance(b, "step", count, c.finite);   // a step that is skipped is not counted
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef sum_squares_def;  // (grad) -> f64[blocks]
extern const OpDef clip_def;         // (loss_scale?, loss?, sums...) -> (norm, scale, finite)
extern const OpDef advance_def;      // (counter) -> counter'

// One sum for each kSumBlock elements of the gradient (f32, bf16 or f16), in double; sum_blocks.h
// has the order of addition.
ValueId sum_squares(Builder& b, std::string_view name, ValueId grad);

struct Clip {
  ValueId norm;    // f32[]: of the unscaled gradients
  ValueId scale;   // f32[]: min(1, max_norm / (norm + 1e-6)), as torch.nn.utils.clip_grad_norm_,
                   // divided by the loss scale
  ValueId finite;  // i32[]: 1; 0 where the norm or the loss is inf or nan, and nothing is clipped
                   // then
};
// squares: f64[blocks] of each gradient, added up block by block. loss_scale: f32[]; the gradients are that many times too large.
// loss: f32[]; gradients may be finite where it is not, after a bad target for one. max_norm <= 0:
// no clipping.
Clip clip(Builder& b, std::string_view name, const std::vector<ValueId>& squares, double max_norm,
          ValueId loss_scale = {}, ValueId loss = {});

// counter (i64[]) += 1, unless the predicate (i32[]) is 0.
ValueId advance(Builder& b, std::string_view name, ValueId counter, ValueId predicate = {});

}  // namespace snug::ops
