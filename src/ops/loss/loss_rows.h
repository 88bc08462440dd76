// Rows of logits on CUDA, a block of threads per row: their losses, and their gradient in place.
// Enqueues only; `stream` is a cudaStream_t.
#pragma once

#include "ir/op_def.h"

namespace snug::ops {

struct LossRows {
  void* logits = nullptr;            // [rows, V], dtype; between rows anything may be written
  const int32_t* targets = nullptr;  // [rows]; negative: the row does not count
  const float* dloss = nullptr;      // [] on the device
  double* losses = nullptr;          // [rows]
  float* lse = nullptr;              // [rows] or absent: log of the sum of exponentials
  int64_t rows = 0, V = 0;
  int64_t stride = 0;  // elements from a row of logits to the next, V or more: always given
  Dtype dtype = Dtype::f32;
};

// losses and lse; the logits stay.
void loss_of_rows(const LossRows& p, void* stream);
// losses, and logits become dloss (softmax(logits) - [v = target]).
void loss_and_gradient_of_rows(const LossRows& p, void* stream);

// The gradient alone, from lse; dlogits have the logits' stride and may be the logits.
void gradient_of_rows(const LossRows& p, void* dlogits, void* stream);

// loss = before (or absent: 0) + the sum of the losses, in a fixed order. loss may be `before`.
void sum_losses(const double* losses, int64_t rows, const float* before, float* loss, void* stream);

}  // namespace snug::ops
