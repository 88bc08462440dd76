// assign: the next version of a persistent value, rounded from another: 16-bit weights from their
// fp32 master.
//
//   assign(b, "load.wte", /*target=*/weight_bf16, /*source=*/master);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

extern const OpDef assign_def;  // (target, source) -> target; floats of one shape

ValueId assign(Builder& b, std::string_view name, ValueId target, ValueId source);

}  // namespace snug::ops
