// CUDA kernels of the activations.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void gelu_cuda(const KernelArgs& a);
void gelu_grad_cuda(const KernelArgs& a);
void gelu_recompute_grad_cuda(const KernelArgs& a);
void relu_cuda(const KernelArgs& a);
void relu_grad_cuda(const KernelArgs& a);
void swiglu_cuda(const KernelArgs& a);
void swiglu_grad_cuda(const KernelArgs& a);
void swiglu_recompute_grad_cuda(const KernelArgs& a);
void dropout_cuda(const KernelArgs& a);

}  // namespace snug::ops
