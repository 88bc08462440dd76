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

// gelu(x) = x P(x): P and its slope. 0.5 (1 + tanh u) is sigmoid(2u).
struct Gate {
  float value, slope;
};

template <typename T>
struct TanhForm {
  __device__ static Gate gate(float x) {
    constexpr float kTwoScale = 1.59576912F;  // 2 sqrt(2 / pi)
    const float cube = __fmul_rn(__fmul_rn(0.044715F, x), x);
    const float p = sigmoid<T>(__fmul_rn(kTwoScale, __fmaf_rn(cube, x, x)));
    return {p, p * (1 - p) * kTwoScale * (1 + 3 * 0.044715F * x * x)};
  }
};

}  // namespace snug::ops
