// CPU kernel of rope.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void rope_cpu(const KernelArgs& a);

}  // namespace snug::ops
