// CPU kernels of the attention family, in f32, bf16 and f16. Work is cut into tiles of kTile
// queries by kTile keys; each task owns what it writes and sums in f32 in a fixed order, so the
// bits do not depend on the number of threads.
#pragma once

#include "ir/op_def.h"
#include "ops/attention/packed_heads.h"

namespace snug::ops {

constexpr int64_t kTile = 64;
constexpr int64_t kMaxHeadDim = 256;  // tiles of this width still fit on a thread's stack

void attention_cpu(const KernelArgs& a);
void attention_grad_cpu(const KernelArgs& a);  // workspace: f32 [B,H,T]
void chunked_attention_cpu(const KernelArgs& a);
void chunked_attention_grad_cpu(const KernelArgs& a);
void flash_attention_cpu(const KernelArgs& a);
void flash_attention_grad_cpu(const KernelArgs& a);  // workspace: f32 [B,H,T]

// Bytes of scratch. Scores are f32 [H, chunk, T]: one chunk of queries in every head of one sample.
int64_t attention_workspace(const PackedHeads& p, Dtype dtype);
int64_t chunked_attention_workspace(const PackedHeads& p, int64_t chunk);
int64_t chunked_attention_grad_workspace(const PackedHeads& p, int64_t chunk, Dtype dtype);

}  // namespace snug::ops
