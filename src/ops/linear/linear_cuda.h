// CUDA kernels of the linear family: thin frames around one GEMM each, and a sum over
// rows. `prepare` chooses the GEMM's algorithm.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void linear_cuda(const KernelArgs& a);
void linear_cuda_prepare(const KernelArgs& a);
void linear_grad_input_cuda(const KernelArgs& a);
void linear_grad_input_cuda_prepare(const KernelArgs& a);
void linear_grad_weight_cuda(const KernelArgs& a);
void linear_grad_weight_cuda_prepare(const KernelArgs& a);
void linear_grad_bias_cuda(const KernelArgs& a);

}  // namespace snug::ops
