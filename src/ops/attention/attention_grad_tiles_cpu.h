// What the backward walks of every kind are made of: one tile of queries against one tile of keys.
//
// With P the probabilities, M the dropout factors and
// delta_i = sum_j P_ij M_ij (dy_i . v_j) = dy_i . y_i:
//   dv = (P M)^T dy     dS = P (M (dy v^T) - delta) * scale     dq = dS k     dk = dS^T q
#pragma once

#include "ops/attention/attention_dropout_cpu.h"
#include "ops/attention/float_tiles_cpu.h"

namespace snug::ops {

// Up to kTile keys with their values, transposed for the matmuls that need them so.
template <typename T>
struct KeyTile {
  int64_t b, kv, j0, size;
  Floats keys;                                      // [size, D]
  alignas(64) float keys_t[kMaxHeadDim * kTile];    // [D, kTile]
  alignas(64) float values_t[kMaxHeadDim * kTile];  // [D, kTile]
  WideTile<T> wide_keys;
};

// Up to kTile queries with their dy.
template <typename T>
struct QueryTile {
  int64_t b, h, i0, size;
  Floats queries, dy;  // [size, D]
  WideTile<T> wide_queries, wide_dy;
};

// P, which becomes P M, and dS of the two tiles: [queries, keys], rows `ld` apart.
struct Scores {
  float* probs;
  float* dscores;
  int64_t ld;
};
struct ScoreTile {
  alignas(64) float probs[kTile * kTile];
  alignas(64) float dscores[kTile * kTile];
  Scores scores() { return {probs, dscores, kTile}; }
};

template <typename T>
struct AttentionGrad {
  PackedHeads p;
  AttentionDropout dropout;
  SeenKeys sees;  // in all rows: seen_in(b)
  float scale;
  const T* qkv;                // [B, T, (H+2K)*D]
  const T* dy;                 // [B, T, H*D]
  float* delta;                // [B, H, T]
  T* dqkv;                     // as qkv
  const T* probs = nullptr;    // [B, H, T, T], or
  const float* lse = nullptr;  // [B, H, T], from which P is computed again

  // `dy_port` is followed by seed, step, sample and starts. delta is the workspace's start.
  AttentionGrad(const KernelArgs& a, size_t dy_port);

  int64_t row(int64_t b, int64_t h, int64_t i) const { return (b * p.H + h) * p.T + i; }

  void delta_from_y(const T* y) const;  // [B, T, H*D]

  void load_keys(int64_t b, int64_t kv, int64_t j0, KeyTile<T>& tile) const;
  void load_queries(int64_t b, int64_t h, int64_t i0, int64_t end, QueryTile<T>& tile) const;

  // scores = P M and dS.
  void load_scores(const QueryTile<T>& q, const KeyTile<T>& k, const Scores& scores) const;
  SeenKeys seen_in(int64_t b) const { return sees.of_row(b, p.T); }
  // Where the first tile begins of whose keys one of the queries from i0 on sees any.
  int64_t first_key_tile(int64_t b, int64_t i0) const {
    return seen_in(b).first(i0) / kTile * kTile;
  }
  // dq (+)= what the keys give; the first keys overwrite.
  void add_dq(const QueryTile<T>& q, const KeyTile<T>& k, const Scores& scores, Sums dq) const;
  // dk and dv of `keys` keys (+)= what the queries give; `first` overwrites.
  void add_dkv(const QueryTile<T>& q, int64_t keys, const Scores& scores, Sums dk, Sums dv,
               bool first) const;

 private:
  void load_probs(const QueryTile<T>& q, const KeyTile<T>& k, const Scores& scores) const;
};

extern template struct AttentionGrad<float>;
extern template struct AttentionGrad<Bf16>;
extern template struct AttentionGrad<F16>;

}  // namespace snug::ops
