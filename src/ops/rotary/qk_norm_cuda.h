// CUDA kernels of qk_norm, and the rule for the scratch of its backward.
#pragma once

#include <algorithm>

#include "ops/rotary/qk_norm.h"

namespace snug::ops {

void qk_norm_cuda(const KernelArgs& a);
void qk_norm_grad_cuda(const KernelArgs& a);  // workspace: f32 [blocks, weights of q and k]

// Blocks of backward, each with its own sums of the weights' gradients: a fixed number, so that the
// scratch does not depend on the machine, about what an H200 holds at once.
constexpr int64_t qk_norm_grad_blocks(const QkNormParts& parts) {
  return std::min<int64_t>(parts.p.B * parts.p.T, 528);
}

}  // namespace snug::ops
