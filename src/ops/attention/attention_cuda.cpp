// Who runs flash attention on CUDA.
#include "ops/attention/attention_cuda.h"

#include "ops/attention/attention_cudnn.h"

namespace snug::ops {
namespace {

bool served(const KernelArgs& a) {
  return cudnn_serves(packed_heads(a.in(0).shape(), a.attrs), a.in(0).type->dtype,
                      a.attrs.has("p"));
}

}  // namespace

void flash_attention_cuda(const KernelArgs& a) {
  if (!served(a) || !cudnn_attention(a)) tiled_flash_attention(a);
}

void prepare_flash_attention_cuda(const KernelArgs& a) {
  if (served(a)) prepare_cudnn_attention(a);
}

void flash_attention_grad_cuda(const KernelArgs& a) {
  if (!served(a) || !cudnn_attention_grad(a)) tiled_flash_attention_grad(a);
}

void prepare_flash_attention_grad_cuda(const KernelArgs& a) {
  if (served(a)) prepare_cudnn_attention_grad(a);
}

}  // namespace snug::ops
