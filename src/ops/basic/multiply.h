// multiply: y = a * b element by element, both of one type. y may alias a or b.
//
//   ValueId scaled = multiply(b, "dloss.scaled", dloss, loss_scale);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef multiply_def;  // (a, b) -> y

ValueId multiply(Builder& b, std::string_view name, ValueId x, ValueId y);

}  // namespace snug::ops
