// CUDA kernel of rope. Workspace as on the CPU: cos and sin, f32 [T, D/2] each.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void rope_cuda(const KernelArgs& a);

}  // namespace snug::ops
