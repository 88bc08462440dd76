// The arithmetic on a row of logits that the CUDA kernels of the losses share.
#pragma once

#include "kernels/cuda/map.cuh"
#include "ops/loss/loss_rows.h"

namespace snug::ops {

// exp(x - at). Two instructions for what is rounded to 16 bits anyway; as exact as it gets for f32.
template <typename T>
struct ExpFrom {
  static constexpr float kLog2e = 1.4426950408889634F;
  float shift;
  __device__ explicit ExpFrom(float at) : shift(-at * kLog2e) {}
  __device__ float operator()(float x) const {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(fmaf(x, kLog2e, shift)));
    return y;
  }
};
template <>
struct ExpFrom<float> {
  float at;
  __device__ explicit ExpFrom(float from) : at(from) {}
  __device__ float operator()(float x) const { return expf(x - at); }
};

template <typename T, int N>
__device__ Vector<T, N> zeros() {
  Vector<T, N> out;
#pragma unroll
  for (int i = 0; i < N; ++i) out.v[i] = from_float<T>(0.0F);
  return out;
}

// The upper half of a float is a bf16: one instruction each, where the compiler takes two for every
// other one.
template <typename T, int N>
__device__ void to_floats(const Vector<T, N>& logits, float (&x)[N]) {
  if constexpr (std::is_same_v<T, __nv_bfloat16> && N % 2 == 0) {
    const auto* pairs = reinterpret_cast<const uint32_t*>(&logits);
#pragma unroll
    for (int i = 0; i < N / 2; ++i) {
      x[2 * i] = __uint_as_float(pairs[i] << 16);
      x[2 * i + 1] = __uint_as_float(pairs[i] & 0xFFFF0000U);
    }
  } else {
#pragma unroll
    for (int i = 0; i < N; ++i) x[i] = to_float(logits.v[i]);
  }
}

// Passes over a nan.
template <typename T, int N>
__device__ float largest_of(const Vector<T, N>& logits) {
  float x[N];
  to_floats(logits, x);
#pragma unroll
  for (int i = 1; i < N; ++i) x[0] = fmaxf(x[0], x[i]);
  return x[0];
}

// The largest logit that a thread has seen and the sum of exp(logit - largest). It starts finite,
// so that a row may hold logits of minus infinity; a nan is passed over in the maximum and comes
// back through the sum.
template <typename T>
struct OnlineSum {
  float max = -1e30F;
  float sum = 0;

  template <int N>
  __device__ void add(const Vector<T, N>& logits) {
    float x[N], largest = max;
    to_floats(logits, x);
#pragma unroll
    for (int i = 0; i < N; ++i) largest = fmaxf(largest, x[i]);
    if (largest > max) {
      sum *= ExpFrom<T>(largest)(max);
      max = largest;
    }
    const ExpFrom<T> exp_of(max);
#pragma unroll
    for (int i = 0; i < N; ++i) sum += exp_of(x[i]);
  }
};

// One thread writes what became of a row that counts.
__device__ inline void write_loss(const LossRows& p, int64_t r, float max, float sum,
                                  float target_logit) {
  const double lse = static_cast<double>(max) + log(static_cast<double>(sum));
  p.losses[r] = lse - static_cast<double>(target_logit);
  if (p.lse != nullptr) p.lse[r] = static_cast<float>(lse);
}

// ... and of one that does not.
__device__ inline void write_no_loss(const LossRows& p, int64_t r) {
  p.losses[r] = 0;
  if (p.lse != nullptr) p.lse[r] = 0;
}

// Beyond the vocabulary: nan, so that bad data is loud.
template <typename T>
__device__ float logit_of_target(const T* row, int32_t target, int64_t V) {
  return target < V ? to_float(row[target]) : NAN;
}

// dlogits of one row, from its logits.
template <typename T>
struct RowGradient {
  ExpFrom<T> exp_of;
  float scale, dloss;
  int32_t target;

  template <int N>
  __device__ Vector<T, N> of(const Vector<T, N>& logits, int vector) const {
    float d[N];
    to_floats(logits, d);
#pragma unroll
    for (int i = 0; i < N; ++i) d[i] = scale * exp_of(d[i]);
    if (vector == target / N) {
#pragma unroll
      for (int i = 0; i < N; ++i) d[i] -= i == target % N ? dloss : 0.0F;
    }
    Vector<T, N> out;
#pragma unroll
    for (int i = 0; i < N; ++i) out.v[i] = from_float<T>(d[i]);
    return out;
  }
};

}  // namespace snug::ops
