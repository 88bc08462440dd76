// The explicit list of all ops. An op exists for the parser (ir/text.h), the checks of ops and the
// documents when it is here. Programs are parsed by tests and fuzzing alone: what is printed must
// read back.
//
//   const OpDef* def = find_op(ops::registry(), "linear");
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

Registry registry();

}  // namespace snug::ops
