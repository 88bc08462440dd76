// Runs flash attention on CUDA on the kernels that the rule names.
#include "ops/attention/attention_cuda.h"

#include "ops/attention/attention_server.h"

namespace snug::ops {
namespace {

Server server_of(const KernelArgs& a) {
  return attention_server(packed_heads(a.in(0).shape(), a.attrs), a.in(0).type->dtype,
                          a.attrs.has("p"), a.math.tf32);
}

// On kernels of our own. All that cuDNN serves, tensor cores do too.
void run_own(const KernelArgs& a, void (*mma)(const KernelArgs&),
             void (*tiled)(const KernelArgs&)) {
  (server_of(a) == Server::plain_tiles ? tiled : mma)(a);
}

}  // namespace

void flash_attention_cuda(const KernelArgs& a) {
  if (server_of(a) == Server::cudnn && cudnn_attention(a)) return;
  run_own(a, mma_flash_attention, tiled_flash_attention);
}

void prepare_flash_attention_cuda(const KernelArgs& a) {
  if (server_of(a) == Server::cudnn) prepare_cudnn_attention(a);
}

void flash_attention_grad_cuda(const KernelArgs& a) {
  if (server_of(a) == Server::cudnn && cudnn_attention_grad(a)) return;
  run_own(a, mma_flash_attention_grad, tiled_flash_attention_grad);
}

void prepare_flash_attention_grad_cuda(const KernelArgs& a) {
  if (server_of(a) == Server::cudnn) prepare_cudnn_attention_grad(a);
}

}  // namespace snug::ops
