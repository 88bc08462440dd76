// CPU kernels of linear_cross_entropy, fp32: a sweep over chunks of tokens, the logits of one chunk
// in scratch.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

// Ports of (x, weight, targets, [bias], [loss_sum]) and of its backward op, which has the bias only
// where there is one.
struct LinearCrossEntropyIn {
  enum Forward : size_t { kX, kWeight, kTargets, kBias, kLossSum };
};
struct LinearCrossEntropyGradIn {
  enum Backward : size_t {
    kX,
    kWeight,
    kTargets,
    kDloss,
    kLossSum,
    kDxSum,
    kDweightSum,
    kBias,
    kDbiasSum
  };
};

// Scratch bytes: the chunk's logits, the losses of its rows, and for a bias gradient its column
// sums.
int64_t linear_cross_entropy_workspace(int64_t rows, int64_t V, int64_t chunk, bool dbias);

void linear_cross_entropy_cpu(const KernelArgs& a);
void linear_cross_entropy_grad_cpu(const KernelArgs& a);  // with and without bias

}  // namespace snug::ops
