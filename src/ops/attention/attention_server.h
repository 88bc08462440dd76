// Whose kernels compute attention on CUDA: by rule and without a GPU, so that a plan made anywhere
// says what will run. Where cuDNN should and is not there, Snug's tensor-core kernels do.
//
//   attention_server(p, Dtype::bf16, {}) == Server::cudnn
#pragma once

#include "ops/attention/attention_cuda.h"
#include "ops/attention/attention_cudnn.h"

namespace snug::ops {

// What counts in addition to heads and types.
struct AttentionNeeds {
  bool dropout = false;
  bool packed = false;  // rows hold several samples
  bool tf32 = false;
};

// flash and chunked attention.
constexpr Server attention_server(const PackedHeads& p, Dtype dtype, AttentionNeeds needs) {
  if (cudnn_serves(p, dtype, needs.dropout, needs.packed)) return Server::cudnn;
  return mma_serves(p, dtype, needs.tf32) ? Server::tensor_cores : Server::plain_tiles;
}

// The same of an op, with the reason where it is not cuDNN. The standard kind has plain tiles only.
Served served_flash_attention(const OpView& op, const Math& math);
Served served_attention(const OpView& op, const Math& math);

}  // namespace snug::ops
