// CUDA kernels of the attention family. flash runs through cuDNN where that serves; on our own
// tensor-core kernels where it does not, halves with dropout or packed samples above all; and on
// plain tiles otherwise: f32 that must not be rounded to tf32 (attention_server.h has the rule).
// chunked has no kernels of its own here: it is the same function with the same statistics, and
// flash's scores are smaller than any chunk's.
#pragma once

#include "ops/attention/packed_heads.h"
#include "ops/infer.h"

namespace snug::ops {

void attention_cuda(const KernelArgs& a);       // workspace: f32 [B,H,T], the rows' log-sum-exp
void attention_grad_cuda(const KernelArgs& a);  // workspace: f32 [B,H,T], delta

void flash_attention_cuda(const KernelArgs& a);
void prepare_flash_attention_cuda(const KernelArgs& a);
void flash_attention_grad_cuda(const KernelArgs& a);
void prepare_flash_attention_grad_cuda(const KernelArgs& a);

// On tensor cores: halves with heads of up to 256, and f32 as tf32 with heads of up to 128. The
// workspace of the second: f32 [B,H,T], delta.
constexpr bool mma_serves(const PackedHeads& p, Dtype dtype, bool tf32) {
  return is_half(dtype) ? p.D <= 256 : tf32 && p.D <= 128;
}
void mma_flash_attention(const KernelArgs& a);
void mma_flash_attention_grad(const KernelArgs& a);

// Plain tiles, whatever else serves. The workspace of the second: f32 [B,H,T], delta.
void tiled_flash_attention(const KernelArgs& a);
void tiled_flash_attention_grad(const KernelArgs& a);

}  // namespace snug::ops
