// CUDA kernels of linear_parts: a GEMM per part. `prepare` chooses their algorithms.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void linear_parts_cuda(const KernelArgs& a);
void linear_parts_cuda_prepare(const KernelArgs& a);
void linear_parts_grad_input_cuda(const KernelArgs& a);
void linear_parts_grad_input_cuda_prepare(const KernelArgs& a);
void linear_parts_grad_weight_cuda(const KernelArgs& a);
void linear_parts_grad_weight_cuda_prepare(const KernelArgs& a);

}  // namespace snug::ops
