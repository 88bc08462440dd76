// CUDA kernel of rope, without workspace: every block makes its own angles.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void rope_cuda(const KernelArgs& a);

}  // namespace snug::ops
