// What the kernels of attention's forward share: their arguments.
#pragma once

#include "kernels/cuda/kernel.cuh"
#include "ops/attention/attention_dropout.cuh"
#include "ops/attention/packed_heads.h"

namespace snug::ops {

template <typename T>
struct Forward {
  PackedHeads p;
  CudaDropout dropout;
  SeenKeys sees;       // of_row(b): in one row
  float scale;         // of the scores
  const T* qkv;        // [B, T, (H+2K)*D]
  T* y;                // [B, T, H*D]
  float* lse;          // [B, H, T]
  T* probs = nullptr;  // standard: [B, H, T, T]
};

template <typename T>
Forward<T> forward_of(const KernelArgs& a, float* lse) {
  const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
  return {p,  cuda_dropout(a, 1), seen_keys(a, 1), score_scale(p, a.attrs), a.in<T>(0), a.out<T>(0),
          lse};
}

}  // namespace snug::ops
