// CPU kernels of the activations.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void gelu_cpu(const KernelArgs& a);
void gelu_grad_cpu(const KernelArgs& a);
void gelu_recompute_grad_cpu(const KernelArgs& a);
void relu_cpu(const KernelArgs& a);
void relu_grad_cpu(const KernelArgs& a);
void swiglu_cpu(const KernelArgs& a);
void swiglu_grad_cpu(const KernelArgs& a);
void swiglu_recompute_grad_cpu(const KernelArgs& a);
void dropout_cpu(const KernelArgs& a);

}  // namespace snug::ops
