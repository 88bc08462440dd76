// CPU kernels of the optimizer's ops.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void adamw_cpu(const KernelArgs& a);
void adamw8bit_cpu(const KernelArgs& a);
void adam_mini_cpu(const KernelArgs& a);
void lion_cpu(const KernelArgs& a);
void sgd_cpu(const KernelArgs& a);
void sgd_momentum_cpu(const KernelArgs& a);

void sum_squares_cpu(const KernelArgs& a);
void clip_cpu(const KernelArgs& a);
void advance_cpu(const KernelArgs& a);
void adjust_loss_scale_cpu(const KernelArgs& a);

}  // namespace snug::ops
