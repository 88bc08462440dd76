// linear_cross_entropy: cross_entropy of logits = x weight^T + bias, whose logits are never a
// value: one chunk of tokens at a time is in scratch. Backward makes loss and gradients in one
// sweep, so training runs no forward op for it. Softmax is fp32 whatever x is; logits are so on the
// CPU, and in the type of x on CUDA. dweight adds up over chunks in its own type, so one of two
// bytes is rounded once per chunk.
//
//   ValueId loss = linear_cross_entropy(
//       b, "loss", {.x = h, .weight = head, .targets = targets, .chunk = 512});
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef linear_cross_entropy_def;  // (x, weight, targets, [bias], [loss_sum]) -> loss
// (x, weight, targets, dloss, [loss_sum], [dx_sum], [dweight_sum]) -> (loss, dx, dweight)
extern const OpDef linear_cross_entropy_grad_def;
// (x, weight, targets, dloss, [loss_sum], [dx_sum], [dweight_sum], bias, [dbias_sum]) -> (loss, dx,
// dweight, dbias)
extern const OpDef linear_bias_cross_entropy_grad_def;
// Where weight and bias are frozen: (x, weight, targets, dloss, [loss_sum], [dx_sum], [bias]) ->
// (loss, dx)
extern const OpDef linear_cross_entropy_grad_input_def;

struct LinearCrossEntropy {
  ValueId x, weight, targets;  // [..., C], [V, C], i32[...]
  ValueId bias = {};           // [V] or none
  int64_t chunk = 1024;        // tokens whose logits exist at the same time
};
ValueId linear_cross_entropy(Builder& b, std::string_view name,
                             const LinearCrossEntropy& p);  // f32[]

}  // namespace snug::ops
