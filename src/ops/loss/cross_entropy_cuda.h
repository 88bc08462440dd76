// CUDA kernels of cross_entropy. Its scratch is the CPU's: one double per row.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void cross_entropy_cuda(const KernelArgs& a);
void cross_entropy_grad_cuda(const KernelArgs& a);

}  // namespace snug::ops
