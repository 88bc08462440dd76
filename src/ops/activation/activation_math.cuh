// Functions of the activations on the device. Two-byte types take the fast ones: their error stays
// far below a rounding. Where a backward recomputes y, its bits must be the forward's: no compiler
// may contract what leads to y.
#pragma once

#include "kernels/cuda/kernel.cuh"

namespace snug::ops {

template <typename T>
__device__ float exponential(float x) {
  return sizeof(T) == 2 ? __expf(x) : expf(x);
}

template <typename T>
__device__ float sigmoid(float x) {
  const float d = __fadd_rn(1.0F, exponential<T>(-x));
  return sizeof(T) == 2 ? __fdividef(1.0F, d) : __fdiv_rn(1.0F, d);
}

}  // namespace snug::ops
