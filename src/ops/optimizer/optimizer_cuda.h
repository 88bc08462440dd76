// CUDA kernels of the optimizer's ops.
#pragma once

#include "ir/op_def.h"
#include "ops/optimizer/sum_blocks.h"

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
void sum_squares_many_cuda(std::span<const KernelArgs> all);

void sum_squares_cuda(const KernelArgs& a);
void clip_cuda(const KernelArgs& a);
void advance_cuda(const KernelArgs& a);
void adjust_loss_scale_cuda(const KernelArgs& a);

// Scratch of clip: its slots, where there are more gradients than one launch takes.
constexpr size_t kClipAtOnce = 320;
constexpr int64_t clip_workspace_cuda(size_t gradients) {
  return gradients > kClipAtOnce ? kClipSlots * size_of(Dtype::f64) : 0;
}

}  // namespace snug::ops
