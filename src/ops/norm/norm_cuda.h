// CUDA kernels of the norms, and the rules that their shapes follow.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void rms_norm_cuda(const KernelArgs& a);
void residual_rms_norm_cuda(const KernelArgs& a);
void rms_norm_grad_cuda(const KernelArgs& a);
void rms_norm_recompute_grad_cuda(const KernelArgs& a);
void layer_norm_cuda(const KernelArgs& a);
void residual_layer_norm_cuda(const KernelArgs& a);
void layer_norm_grad_cuda(const KernelArgs& a);
void layer_norm_recompute_grad_cuda(const KernelArgs& a);

// How many warps share a row of backward in 16-byte vectors, four to a lane; 0: the row does not
// vector, or is too wide.
constexpr int norm_row_warps(int64_t columns, int64_t bytes_per_element) {
  const int64_t bytes = columns * bytes_per_element;
  if (bytes % 16 != 0) return 0;
  int warps = 1;
  while (bytes > int64_t{warps} * 32 * 4 * 16) warps *= 2;
  return warps <= 16 ? warps : 0;
}

// Blocks of backward, each with its own sum of the parameters' gradients. A fixed number, so that
// the scratch does not depend on the machine: what an H200 holds at once. A block has 16 warps;
// where rows are walked in memory, one row.
constexpr int64_t norm_grad_blocks(int64_t rows, int row_warps) {
  const int64_t most = row_warps == 0 ? 528 : 132;
  const int64_t rows_per_block = row_warps == 0 ? 1 : 16 / row_warps;
  const int64_t needed = (rows + rows_per_block - 1) / rows_per_block;
  return needed < 1 ? 1 : needed < most ? needed : most;
}

}  // namespace snug::ops
