// cast: the same numbers in another dtype. Float to float rounds to nearest, ties to even; float to
// integer cuts the fraction off (the caller knows that the numbers are in range). Gradients are
// cast back.
//
//   ValueId half = cast(b, "w.bf16", weight, Dtype::bf16);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef cast_def;  // (x) -> y; attrs to (as text)

ValueId cast(Builder& b, std::string_view name, ValueId x, Dtype to);

}  // namespace snug::ops
