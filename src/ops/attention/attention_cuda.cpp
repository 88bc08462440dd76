// Who runs flash attention on CUDA.
#include "ops/attention/attention_cuda.h"

#include "ops/attention/attention_cudnn.h"

namespace snug::ops {
namespace {

PackedHeads heads_of(const KernelArgs& a) { return packed_heads(a.in(0).shape(), a.attrs); }

bool served(const KernelArgs& a) {
  return cudnn_serves(heads_of(a), a.in(0).type->dtype, a.attrs.has("p"));
}

// On kernels of our own.
void run_own(const KernelArgs& a, void (*mma)(const KernelArgs&),
             void (*tiled)(const KernelArgs&)) {
  const bool tensor_cores = mma_serves(heads_of(a), a.in(0).type->dtype, a.math.tf32);
  (tensor_cores ? mma : tiled)(a);
}

}  // namespace

void flash_attention_cuda(const KernelArgs& a) {
  if (served(a) && cudnn_attention(a)) return;
  run_own(a, mma_flash_attention, tiled_flash_attention);
}

void prepare_flash_attention_cuda(const KernelArgs& a) {
  if (served(a)) prepare_cudnn_attention(a);
}

void flash_attention_grad_cuda(const KernelArgs& a) {
  if (served(a) && cudnn_attention_grad(a)) return;
  run_own(a, mma_flash_attention_grad, tiled_flash_attention_grad);
}

void prepare_flash_attention_grad_cuda(const KernelArgs& a) {
  if (served(a)) prepare_cudnn_attention_grad(a);
}

}  // namespace snug::ops
