// is_finite: 1 where an f32 scalar is a number, 0 where it is infinite or NaN: a predicate for the
// ops that a step with an overflow must skip.
//
//   ValueId good = is_finite(b, "grads.finite", grad_norm);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef is_finite_def;  // (x f32[]) -> y i32[]

ValueId is_finite(Builder& b, std::string_view name, ValueId x);

}  // namespace snug::ops
