// CPU kernels of qk_norm.
#pragma once

#include <algorithm>

#include "ops/rotary/qk_norm.h"

namespace snug::ops {

void qk_norm_cpu(const KernelArgs& a);
void qk_norm_grad_cpu(const KernelArgs& a);  // workspace: f32 [row blocks, weights of q and k]

// The weights' gradients are summed over this many blocks of rows, then over the blocks in order:
// neither the sum nor the scratch depends on how many threads there are.
constexpr int64_t qk_norm_grad_row_blocks(const QkNormParts& parts) {
  return std::min<int64_t>(parts.p.B * parts.p.T, 64);
}

}  // namespace snug::ops
