// Attention through cuDNN on packed qkv: what it serves and the scratch it may ask for, both by
// rule so that a plan made anywhere is the one that runs; and the kernels. cuDNN is opened when it
// is first needed; nothing links against it.
#pragma once

#include <string>

#include "base/units.h"
#include "ops/attention/packed_heads.h"
#include "ops/infer.h"

namespace snug::ops {

// bf16 and f16, heads of whole 16-byte packs that every architecture's engines take, no dropout
// (its masks are ours), rows of one sample, and more than one token (a single one has no engine).
constexpr bool cudnn_serves(const PackedHeads& p, Dtype dtype, bool dropout, bool packed) {
  return is_half(dtype) && !dropout && !packed && p.D % 8 == 0 && p.D <= 128 && p.T > 1;
}

// The caps are what cuDNN 9.19's own sizes for Hopper say, and a mebibyte. Forward: 256 bytes.
constexpr int64_t cudnn_attention_workspace() { return int64_t{1} << 20; }

// Backward: dq in f32, a value per row and, where heads are grouped, dk and dv of every q head in
// halves. Older engines keep one array of dq's size more: they take the batch in parts, and a batch
// that has none gets that array too.
constexpr int64_t cudnn_attention_grad_workspace(const PackedHeads& p) {
  const int64_t dq = p.B * p.H * round_up(p.T, 128) * p.D * 4;
  const int64_t arrays = (p.H == p.K ? 1 : 2) + (p.B == 1 ? 1 : 0);
  return arrays * dq + 4 * dq / p.D + (int64_t{1} << 20);
}

// Make the plan of a flash_attention or flash_attention_grad op, or take the one made before, and
// enqueue it. `prepare` only makes it, and unless the math is deterministic times the ways to run a
// large one; then it writes the outputs and the workspace. False: there is no cuDNN here, it has no
// such attention on this GPU, or no deterministic engine that the workspace affords; then nothing
// was enqueued. No other engine that fits the workspace is an error with both numbers.
bool prepare_cudnn_attention(const KernelArgs& a);
bool cudnn_attention(const KernelArgs& a);
bool prepare_cudnn_attention_grad(const KernelArgs& a);
bool cudnn_attention_grad(const KernelArgs& a);

// "9.19.0"; empty where it is not found, or was not when this was built.
std::string cudnn_version();

}  // namespace snug::ops
