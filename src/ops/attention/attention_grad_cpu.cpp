// Backward of the standard and the flash kind: tile by tile, nothing between tiles.
#include <omp.h>

#include <algorithm>

#include "base/units.h"
#include "kernels/cpu/gemm.h"
#include "kernels/float_kernels.h"
#include "ops/attention/attention_grad_tiles_cpu.h"

namespace snug::ops {
namespace {

// dk and dv of one tile of keys, over the group's heads and their queries in order; and, if asked,
// its part of dq, which f32 alone can add up in place.
template <typename T>
void key_tile_grad(const AttentionGrad<T>& g, int64_t b, int64_t kv, int64_t j0, bool with_dq) {
  const PackedHeads& p = g.p;
  KeyTile<T> keys;
  QueryTile<T> queries;
  ScoreTile tile;
  SumTile<T> dk(g.dqkv + p.k(b, j0, kv), p.width());
  SumTile<T> dv(g.dqkv + p.v(b, j0, kv), p.width());
  g.load_keys(b, kv, j0, keys);
  const int64_t first_h = kv * p.group();
  const SeenKeys sees = g.seen_in(b);
  const int64_t first_i = sees.first_query(j0);
  const int64_t end_i = sees.end_query(j0 + keys.size - 1, p.T);
  for (int64_t h = first_h; h < first_h + p.group(); ++h) {
    for (int64_t i0 = first_i; i0 < end_i; i0 += kTile) {
      g.load_queries(b, h, i0, p.T, queries);
      g.load_scores(queries, keys, tile.scores());
      g.add_dkv(queries, keys.size, tile.scores(), dk.sums(), dv.sums(),
                h == first_h && i0 == first_i);
      if constexpr (kIsFloat<T>) {
        if (with_dq) g.add_dq(queries, keys, tile.scores(), {g.dqkv + p.q(b, i0, h), p.width()});
      }
    }
  }
  dk.store(keys.size, p.D);
  dv.store(keys.size, p.D);
}

// dq of one tile of queries, over the keys in order.
template <typename T>
void query_tile_grad(const AttentionGrad<T>& g, int64_t b, int64_t h, int64_t i0) {
  const PackedHeads& p = g.p;
  KeyTile<T> keys;
  QueryTile<T> queries;
  ScoreTile tile;
  SumTile<T> dq(g.dqkv + p.q(b, i0, h), p.width());
  g.load_queries(b, h, i0, p.T, queries);
  const int64_t seen = g.sees.end(i0 + queries.size - 1, p.T);
  for (int64_t j0 = g.first_key_tile(b, i0); j0 < seen; j0 += kTile) {
    g.load_keys(b, h / p.group(), j0, keys);
    g.load_scores(queries, keys, tile.scores());
    g.add_dq(queries, keys, tile.scores(), dq.sums());
  }
  dq.store(queries.size, p.D);
}

// One task per kv head makes five matmuls per tile and shares nothing. Where that leaves threads
// idle, keys and queries are walked apart: up to seven matmuls, but a task per tile. Both sum in
// the same order, to the same bits. Halves are always walked apart, since dq adds up in f32 on the
// stack.
template <typename T>
void backward(const AttentionGrad<T>& g) {
  const PackedHeads& p = g.p;
  const int64_t heads = p.B * p.K;
  const int64_t tiles = ceil_div(p.T, kTile);
  const int64_t threads = omp_get_max_threads();
  if (kIsFloat<T> && 5 * threads * ceil_div(heads, threads) <= 7 * heads) {
#pragma omp parallel for schedule(dynamic)
    for (int64_t head = 0; head < heads; ++head) {
      for (int64_t j0 = 0; j0 < p.T; j0 += kTile) {
        key_tile_grad(g, head / p.K, head % p.K, j0, true);
      }
    }
    return;
  }
#pragma omp parallel
  {
#pragma omp for schedule(dynamic) nowait
    for (int64_t task = 0; task < heads * tiles; ++task) {
      const int64_t head = task / tiles;
      key_tile_grad(g, head / p.K, head % p.K, task % tiles * kTile, false);
    }
#pragma omp for schedule(dynamic)
    for (int64_t task = 0; task < p.B * p.H * tiles; ++task) {
      const int64_t head = task / tiles;
      query_tile_grad(g, head / p.H, head % p.H, (tiles - 1 - task % tiles) * kTile);
    }
  }
}

// delta of one tile of queries from their probabilities.
template <typename T>
void tile_delta(const AttentionGrad<T>& g, int64_t b, int64_t h, int64_t i0) {
  const PackedHeads& p = g.p;
  const int64_t rows = std::min(kTile, p.T - i0);
  const int64_t seen = g.sees.end(i0 + rows - 1, p.T);
  float* delta = g.delta + g.row(b, h, i0);
  std::fill_n(delta, rows, 0.0F);
  WideTile<T> wide_dy, wide_values;
  const Floats dy = wide_dy.of(g.dy + p.y(b, i0, h), rows, p.D, p.H * p.D);
  for (int64_t j0 = g.first_key_tile(b, i0); j0 < seen; j0 += kTile) {
    const int64_t keys = std::min(kTile, seen - j0);
    const Floats values = wide_values.of(g.qkv + p.v(b, j0, h / p.group()), keys, p.D, p.width());
    float dprobs[kTile * kTile];
    gemm({.m = rows,
          .n = keys,
          .k = p.D,
          .a = dy.at,
          .b = values.at,
          .c = dprobs,
          .lda = dy.ld,
          .ldb = values.ld,
          .ldc = kTile,
          .transpose_b = true});
    for (int64_t i = 0; i < rows; ++i) {
      const T* probs = g.probs + g.row(b, h, i0 + i) * p.T + j0;
      float factors[kTile];
      std::fill_n(factors, keys, 1.0F);
      if (g.dropout.on()) g.dropout.factors(b, (h * p.T + i0 + i) * p.T + j0, keys, factors);
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (int64_t j = 0; j < keys; ++j) sum += probs[j] * factors[j] * dprobs[i * kTile + j];
      delta[i] += sum;
    }
  }
}

// The standard kind does not keep y.
template <typename T>
void delta_from_probs(const AttentionGrad<T>& g) {
  const int64_t tiles = ceil_div(g.p.T, kTile);
#pragma omp parallel for schedule(dynamic)
  for (int64_t task = 0; task < g.p.B * g.p.H * tiles; ++task) {
    const int64_t head = task / tiles;
    tile_delta(g, head / g.p.H, head % g.p.H, (tiles - 1 - task % tiles) * kTile);
  }
}

}  // namespace

void attention_grad_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    AttentionGrad<T> g(a, 2);
    g.probs = a.in<T>(1);
    delta_from_probs(g);
    backward(g);
  });
}

void flash_attention_grad_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    AttentionGrad<T> g(a, 3);
    g.lse = a.in<float>(2);
    g.delta_from_y(a.in<T>(1));
    backward(g);
  });
}

}  // namespace snug::ops
