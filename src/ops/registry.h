// The explicit list of all ops. An op exists for the parser, the checks and the docs when it is
// here.
//
//   const OpDef* def = find_op(ops::registry(), "linear");
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

Registry registry();

}  // namespace snug::ops
