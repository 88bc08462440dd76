// Runs flash attention on CUDA on the kernels that the rule names.
#include "ops/attention/attention_cuda.h"

#include "ops/attention/attention_server.h"

namespace snug::ops {
namespace {

// `random`: the port of seed.
Server server_of(const KernelArgs& a, size_t random) {
  return attention_server(
      packed_heads(a.in(0).shape(), a.attrs), a.in(0).type->dtype,
      {.dropout = a.attrs.has("p"), .packed = a.has(starts_port(random)), .tf32 = a.math.tf32});
}
Server forward_server(const KernelArgs& a) { return server_of(a, 1); }
Server grad_server(const KernelArgs& a) { return server_of(a, 4); }

}  // namespace

void flash_attention_cuda(const KernelArgs& a) {
  const Server server = forward_server(a);
  if (server == Server::cudnn && cudnn_attention(a)) return;
  // All that cuDNN serves, tensor cores do too.
  (server == Server::plain_tiles ? tiled_flash_attention : mma_flash_attention)(a);
}

void prepare_flash_attention_cuda(const KernelArgs& a) {
  if (forward_server(a) == Server::cudnn) prepare_cudnn_attention(a);
}

void flash_attention_grad_cuda(const KernelArgs& a) {
  const Server server = grad_server(a);
  if (server == Server::cudnn && cudnn_attention_grad(a)) return;
  (server == Server::plain_tiles ? tiled_flash_attention_grad : mma_flash_attention_grad)(a);
}

void prepare_flash_attention_grad_cuda(const KernelArgs& a) {
  if (grad_server(a) == Server::cudnn) prepare_cudnn_attention_grad(a);
}

}  // namespace snug::ops
