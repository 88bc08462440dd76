// CPU kernels of linear_cross_entropy: a sweep over chunks of tokens, the logits of one chunk in
// scratch. Operands are of any float type; logits, softmax and dlogits are fp32.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

// Ports of (x, weight, targets, [bias], [loss_sum]) and of its backward op, which has the bias only
// where there is one; without a dweight it has the bias in place of what that adds to.
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
    kDbiasSum,
    kFrozenBias = kDweightSum
  };
};

// What the scratch of a call follows from.
struct LossHead {
  int64_t rows = 0, C = 0, V = 0, chunk = 0;
  Dtype dtype = Dtype::f32;  // of x, weight and bias
  bool backward = false;     // with dx
  bool dweight = false;      // and dweight
  bool dbias = false;        // and dbias
  Dtype grads = Dtype::f32;  // of dweight and dbias
};

// Of a call of any of the ops, on either backend.
LossHead loss_head(const KernelArgs& a, bool backward);
// Where a backward op has its bias: with a dweight and no dbias nowhere.
constexpr size_t bias_port_of_grad(size_t outputs) {
  using P = LinearCrossEntropyGradIn;
  constexpr size_t kNowhere = 64;
  return outputs > 3 ? size_t{P::kBias} : outputs > 2 ? kNowhere : size_t{P::kFrozenBias};
}

// Scratch bytes: the chunk's logits, the losses of its rows, for a bias gradient its column sums,
// and what GEMMs of two-byte operands need.
int64_t linear_cross_entropy_workspace(const LossHead& head);

void linear_cross_entropy_cpu(const KernelArgs& a);
void linear_cross_entropy_grad_cpu(const KernelArgs& a);  // of all three backward ops

}  // namespace snug::ops
