// The shape of a cache of keys or values [B,N,K,D], and which of its rows a query sees.
#pragma once

#include "ops/attention/packed_heads.h"
#include "ops/packed_rows.h"

namespace snug::ops {

struct KeyValueCache {
  PackedHeads p;          // of the new tokens
  int64_t N;              // positions
  int64_t window;         // 0: none
  const int32_t* starts;  // [B,T]

  constexpr int64_t position(int64_t b, int64_t t) const {
    return position_in_sample(starts, b * p.T + t, p.T);
  }
  // Where a head starts in the row of that position.
  constexpr int64_t at(int64_t b, int64_t position, int64_t kv) const {
    return ((b * N + position) * p.K + kv) * p.D;
  }
  // A query at `position` sees [first(position), position].
  constexpr int64_t first(int64_t position) const {
    return SeenKeys{.causal = true, .window = window}.first(position);
  }
};

inline KeyValueCache key_value_cache(const KernelArgs& a) {
  return {.p = packed_heads(a.in(0).shape(), a.attrs),
          .N = a.in(1).shape()[1],
          .window = a.attrs.i("window", 0),
          .starts = a.in<int32_t>(3)};
}

// What a call of either kernel works on.
template <typename T>
struct Caches {
  KeyValueCache c;
  float scale;
  const T* qkv;      // [B, T, (H+2K)*D]
  T *keys, *values;  // [B, N, K, D]
  T* y;              // [B, T, H*D]
};

}  // namespace snug::ops
