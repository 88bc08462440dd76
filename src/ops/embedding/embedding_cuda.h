// CUDA kernels of the embedding family, and the scratch that the gradient of the table takes.
#pragma once

#include "ir/op_def.h"
#include "ops/embedding/token_order.h"

namespace snug::ops {

void embedding_cuda(const KernelArgs& a);
void embedding_grad_cuda(const KernelArgs& a);
void embedding_grad_positions_cuda(const KernelArgs& a);
void embedding_grad_types_cuda(const KernelArgs& a);

// Adds every row of dy (input 0) to the row of output 0 that its token names; `add`: to what it
// holds. scratch: EmbeddingGradScratch.
void add_by_token_cuda(const KernelArgs& a, const int32_t* tokens, bool add, std::byte* scratch);

// The gradient of the table adds up rows of dy in the order of their tokens, kEmbeddingSegment at a
// time; a token that runs over the end of a segment leaves fp32 sums of its parts.
constexpr int64_t kEmbeddingSegment = 32;

// Byte offsets in embedding_grad's scratch.
struct EmbeddingGradScratch {
  int64_t parts;  // [segments, 2, C] f32, after the sorted tokens
  int64_t end;

  static EmbeddingGradScratch of(int64_t tokens, int64_t C) {
    const char* what = "embedding_grad's sums";
    const int64_t segments = ceil_div(tokens, kEmbeddingSegment);
    EmbeddingGradScratch s{};
    s.parts = token_order_scratch(tokens);
    s.end = checked_add(
        s.parts, checked_mul(checked_mul(2 * segments, C, what), size_of(Dtype::f32), what), what);
    return s;
  }
};

}  // namespace snug::ops
