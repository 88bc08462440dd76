// CPU kernels of the rms_norm family.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

// Weight gradients are summed in this many blocks of rows, then over the blocks in order: a fixed number, so that the
// sum and the scratch do not depend on how many threads there are.
constexpr int64_t kWeightGradBlocks = 32;

void rms_norm_cpu(const KernelArgs& a);
void rms_norm_grad_cpu(const KernelArgs& a);

}  // namespace snug::ops
