// What the kernels of attention's backward share: their arguments, and delta, the dot
// product of dy and y in each row.
#pragma once

#include "kernels/cuda/kernel.cuh"
#include "ops/attention/attention_dropout.cuh"
#include "ops/attention/packed_heads.h"

namespace snug::ops {

template <typename T>
struct Backward {
  PackedHeads p;
  CudaDropout dropout;
  SeenKeys sees;               // of_row(b): in one row
  float scale;                 // of the scores
  const T* qkv;                // [B, T, (H+2K)*D]
  const T* dy;                 // [B, T, H*D]
  float* delta;                // [B, H, T]
  T* dqkv;                     // as qkv
  const T* probs = nullptr;    // [B, H, T, T], or
  const float* lse = nullptr;  // [B, H, T], from which P is computed again

  __device__ int64_t row(int64_t b, int64_t h, int64_t i) const { return (b * p.H + h) * p.T + i; }
};

// `dy_port` is followed by seed, step, sample and starts.
template <typename T>
Backward<T> backward_of(const KernelArgs& a, size_t dy_port) {
  const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
  return {p,
          cuda_dropout(a, dy_port + 1),
          seen_keys(a, dy_port + 1),
          score_scale(p, a.attrs),
          a.in<T>(0),
          a.in<T>(dy_port),
          reinterpret_cast<float*>(a.workspace.data()),
          a.out<T>(0)};
}

constexpr int kDeltaThreads = 256;

template <typename T>
unsigned delta_blocks(const Backward<T>& g) {
  return static_cast<unsigned>(ceil_div(g.p.B * g.p.H * g.p.T * 32, kDeltaThreads));
}

// The dot product of each row [D] of dy and y. One warp per row.
template <typename T>
__global__ void delta_from_y(const Backward<T> g, const T* y) {
  const PackedHeads& p = g.p;
  const int64_t row = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32;  // in [B, T, H]
  if (row >= p.B * p.T * p.H) return;
  float sum = 0;
  for (int64_t d = threadIdx.x % 32; d < p.D; d += 32)
    sum += to_float(g.dy[row * p.D + d]) * to_float(y[row * p.D + d]);
  sum = warp_sum(sum);
  const int64_t token = row / p.H;
  if (threadIdx.x % 32 == 0) g.delta[g.row(token / p.T, row % p.H, token % p.T)] = sum;
}

template <typename T>
void launch_delta_from_y(const Backward<T>& g, const T* y, const KernelArgs& a) {
  delta_from_y<<<delta_blocks(g), kDeltaThreads, 0, stream_of(a)>>>(g, y);
  check_launch("attention's delta");
}

}  // namespace snug::ops
