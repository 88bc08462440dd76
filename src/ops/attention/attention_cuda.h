// CUDA kernels of the attention family. flash runs through cuDNN where that serves, and on our own
// tiles elsewhere: f32, dropout, odd heads, no cuDNN. chunked has no kernels of its own here: it is
// the same function with the same statistics, and flash's scores are smaller than any chunk's.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

void attention_cuda(const KernelArgs& a);       // workspace: f32 [B,H,T], the rows' log-sum-exp
void attention_grad_cuda(const KernelArgs& a);  // workspace: f32 [B,H,T], delta

void flash_attention_cuda(const KernelArgs& a);
void prepare_flash_attention_cuda(const KernelArgs& a);
void flash_attention_grad_cuda(const KernelArgs& a);
void prepare_flash_attention_grad_cuda(const KernelArgs& a);

// Our own tiles, whatever cuDNN serves. The workspace of the second: f32 [B,H,T], delta.
void tiled_flash_attention(const KernelArgs& a);
void tiled_flash_attention_grad(const KernelArgs& a);

}  // namespace snug::ops
