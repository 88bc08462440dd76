// Kernels of vocabulary_loss: the sweeps of linear_cross_entropy, in whose files they are.
#pragma once

#include "ops/loss/linear_cross_entropy_cuda.h"

namespace snug::ops {

// The port of the statistics: of the loss, and of its backward op.
constexpr size_t kVocabularyStats = 5;
constexpr size_t vocabulary_stats_port_of_grad(bool bias) { return bias ? 9 : 7; }

void vocabulary_stats_cpu(const KernelArgs& a);
void vocabulary_loss_cpu(const KernelArgs& a);
void vocabulary_loss_grad_cpu(const KernelArgs& a);  // of both backward ops

void vocabulary_stats_cuda(const KernelArgs& a);
void vocabulary_loss_cuda(const KernelArgs& a);
void vocabulary_loss_grad_cuda(const KernelArgs& a);

// After the scratch of linear_cross_entropy: each row's log-sum-exp, and its target among the words
// here.
struct VocabularyScratch {
  int64_t lse, targets, end;

  static VocabularyScratch of(const LossHead& h) {
    const char* what = "the rows of a loss";
    constexpr int64_t kAlign = 256;
    const int64_t rows = round_up(checked_mul(h.rows, size_of(Dtype::f32), what), kAlign);
    const int64_t first = round_up(CudaLossScratch::of(h).end, kAlign);
    return {.lse = first, .targets = first + rows, .end = first + 2 * rows};
  }
};

}  // namespace snug::ops
