// CPU kernels of the norms, for every float type. One template serves rms_norm and layer_norm,
// plain and residual.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void rms_norm_cpu(const KernelArgs& a);
void residual_rms_norm_cpu(const KernelArgs& a);
void rms_norm_grad_cpu(const KernelArgs& a);
void rms_norm_recompute_grad_cpu(const KernelArgs& a);
void layer_norm_cpu(const KernelArgs& a);
void residual_layer_norm_cpu(const KernelArgs& a);
void layer_norm_grad_cpu(const KernelArgs& a);
void layer_norm_recompute_grad_cpu(const KernelArgs& a);

// Scratch of a backward kernel for `params` gradients of shape [C].
int64_t norm_grad_workspace(const Shape& x, int64_t params);

}  // namespace snug::ops
