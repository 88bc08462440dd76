// CPU kernels of the attention family. Work is cut into tiles of kTile queries by kTile keys; each
// task owns what it writes and sums in a fixed order, so the bits do not depend on the number of
// threads.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

constexpr int64_t kTile = 64;
constexpr int64_t kMaxHeadDim = 256;  // tiles of this width still fit on a thread's stack

void attention_cpu(const KernelArgs& a);
void attention_grad_cpu(const KernelArgs& a);  // workspace: f32 [B,H,T]
void flash_attention_cpu(const KernelArgs& a);
void flash_attention_grad_cpu(const KernelArgs& a);  // workspace: f32 [B,H,T]

}  // namespace snug::ops
