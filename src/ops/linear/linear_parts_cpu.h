// CPU kernels of linear_parts, in any float type: a GEMM per part.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void linear_parts_cpu(const KernelArgs& a);
void linear_parts_grad_input_cpu(const KernelArgs& a);
void linear_parts_grad_weight_cpu(const KernelArgs& a);

}  // namespace snug::ops
