// fill: a value with one number everywhere. Not differentiable: it has no inputs.
//
//   ValueId zeros = fill(b, "dlogits.zero", {Dtype::f32, {8, 50257}}, 0);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef fill_def;  // () -> y; attrs dtype and shape (as text), value

ValueId fill(Builder& b, std::string_view name, Type type, double value);

}  // namespace snug::ops
