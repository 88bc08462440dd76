// relu: y = max(x, 0). Its gradient reads y, which the next matmul keeps anyway.
//
//   ValueId a = relu(b, "mlp.act", up);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef relu_def;       // (x) -> y; y may alias x
extern const OpDef relu_grad_def;  // (y, dy) -> dx; dx may alias y or dy

ValueId relu(Builder& b, std::string_view name, ValueId x);

}  // namespace snug::ops
