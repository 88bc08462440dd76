// cross_entropy: the sum over the targets that count of -log softmax(logits)[target]. A negative
// target does not count; one beyond the vocabulary makes the loss nan. A loss is a sum: the
// caller's dloss = 1 / count normalises.
//
//   ValueId loss = cross_entropy(b, "loss", {.logits = logits, .targets = targets});
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef cross_entropy_def;       // (logits, targets, [loss_sum]) -> (loss, lse)
extern const OpDef cross_entropy_grad_def;  // (logits, lse, targets, dloss) -> dlogits

struct CrossEntropy {
  ValueId logits, targets;  // [..., V], i32[...]
};
ValueId cross_entropy(Builder& b, std::string_view name, const CrossEntropy& p);  // f32[]

}  // namespace snug::ops
