// CPU kernels of the linear family, in any float type: thin frames around one GEMM each.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void linear_cpu(const KernelArgs& a);
void linear_grad_input_cpu(const KernelArgs& a);
void linear_grad_weight_cpu(const KernelArgs& a);
void linear_grad_bias_cpu(const KernelArgs& a);

}  // namespace snug::ops
