// CPU kernels of the optimizer's ops.
#pragma once

#include <span>

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

// The sum of x, which it uses up, as block_sum on CUDA adds its threads: each 32 by halves, then
// those sums in order.
double sum_as_threads(std::span<double> x);

}  // namespace snug::ops
