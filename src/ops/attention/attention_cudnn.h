// Attention through cuDNN on packed qkv: what it serves and the scratch it may ask for, both by
// rule so that a plan made anywhere is the one that runs; and the kernels. cuDNN is opened when it
// is first needed; nothing links against it.
#pragma once

#include <algorithm>
#include <string>

#include "base/units.h"
#include "ops/attention/packed_heads.h"

namespace snug::ops {

// bf16 and f16, heads of whole 16-byte packs that every architecture's engines take, no dropout
// (its masks are ours), and more than one token (a single one has no engine).
constexpr bool cudnn_serves(const PackedHeads& p, Dtype dtype, bool dropout) {
  return (dtype == Dtype::bf16 || dtype == Dtype::f16) && !dropout && p.D % 8 == 0 && p.D <= 128 &&
         p.T > 1;
}

// Bytes of y in f32, with rows in whole tiles of the engines.
constexpr int64_t cudnn_sum_bytes(const PackedHeads& p) {
  return p.B * p.H * round_up(p.T, 128) * p.D * 4;
}

// Hopper's forward asks for nothing, or for counters; the rest is for engines that split a row.
constexpr int64_t cudnn_attention_workspace(const PackedHeads& p) {
  return std::min(int64_t{16} << 20, cudnn_sum_bytes(p) + (int64_t{1} << 20));
}

// Backward sums dq in f32, [B,H,T,D], beside a few values per row and counters. Grouped heads also
// keep dk and dv per q head before they are added up: twice as much if in f32. One such array is
// left over where heads are not grouped, for engines that keep their own order.
constexpr int64_t cudnn_attention_grad_workspace(const PackedHeads& p) {
  const int64_t sums = p.H == p.K ? 2 : 3;
  const int64_t rows = 4 * cudnn_sum_bytes(p) / p.D;
  return sums * cudnn_sum_bytes(p) + rows + (int64_t{1} << 20);
}

// Make the plan of a flash_attention or flash_attention_grad op, or take the one made before, and
// enqueue it (`prepare`: only make it). False: there is no cuDNN here, or no deterministic engine
// that the workspace affords; then nothing was enqueued. No plan that fits the workspace is an
// error with both numbers.
bool prepare_cudnn_attention(const KernelArgs& a);
bool cudnn_attention(const KernelArgs& a);
bool prepare_cudnn_attention_grad(const KernelArgs& a);
bool cudnn_attention_grad(const KernelArgs& a);

// "9.19.0"; empty where it is not found, or was not when this was built.
std::string cudnn_version();

}  // namespace snug::ops
