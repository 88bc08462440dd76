// gelu: y = x Phi(x), exact (erf) or in the tanh form that GPT-2 was trained with (gelu_new,
// gelu_pytorch_tanh).
//
//   ValueId a = gelu(b, "mlp.act", up, /*tanh=*/true);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef gelu_def;       // (x) -> y; attrs tanh
extern const OpDef gelu_grad_def;  // (x, dy) -> dx; dx may alias x or dy
// The same, and y once more, for backward ops that read it: (x, dy) -> (dx, y)
extern const OpDef gelu_recompute_grad_def;

ValueId gelu(Builder& b, std::string_view name, ValueId x, bool tanh);

}  // namespace snug::ops
