// CUDA kernels of the optimizer's ops.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void adamw_cuda(const KernelArgs& a);
void adamw8bit_cuda(const KernelArgs& a);
void adam_mini_cuda(const KernelArgs& a);
void lion_cuda(const KernelArgs& a);
void sgd_cuda(const KernelArgs& a);
void sgd_momentum_cuda(const KernelArgs& a);

void adamw_many_cuda(std::span<const KernelArgs> all);
void lion_many_cuda(std::span<const KernelArgs> all);
void sgd_many_cuda(std::span<const KernelArgs> all);
void sgd_momentum_many_cuda(std::span<const KernelArgs> all);

void sum_squares_cuda(const KernelArgs& a);
void clip_cuda(const KernelArgs& a);
void advance_cuda(const KernelArgs& a);
void adjust_loss_scale_cuda(const KernelArgs& a);

}  // namespace snug::ops
