#include <algorithm>
#include <cmath>
#include <limits>

#include "base/units.h"
#include "base/vec_math.h"
#include "kernels/cpu/gemm.h"
#include "kernels/float_kernels.h"
#include "ops/attention/attention_cpu.h"
#include "ops/attention/attention_dropout_cpu.h"
#include "ops/attention/float_tiles_cpu.h"

namespace snug::ops {
namespace {

template <typename T>
struct Flash {
  PackedHeads p;
  AttentionDropout dropout;
  SeenKeys sees;
  float scale;
  const T* qkv;  // [B, T, (H+2K)*D]
  T* y;          // [B, T, H*D]
  float* lse;    // [B, H, T]
};

// kTile queries against the keys tile by tile. Scores are stored as [key][query]: every step of the
// softmax is then a plain loop over queries, and the matmul needs no transposed keys. Queries
// beyond the last are unread zeros.
struct QueryTile {
  alignas(64) float queries[kMaxHeadDim * kTile];  // [D, kTile], times the scale
  alignas(
      64) float scores[kTile * kTile];  // [keys, kTile], then probabilities up to the row's factor
  alignas(64) float max[kTile];
  alignas(64) float sum[kTile];
  alignas(64) float rescale[kTile];  // what the results so far shrink by, as the maximum grew
};

template <typename T>
void load_queries(const T* q, int64_t rows, const PackedHeads& p, float scale, QueryTile& tile) {
  std::fill_n(tile.queries, p.D * kTile, 0.0F);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t d = 0; d < p.D; ++d) tile.queries[d * kTile + i] = q[i * p.width() + d] * scale;
  }
  std::fill_n(tile.max, kTile, -std::numeric_limits<float>::infinity());
  std::fill_n(tile.sum, kTile, 0.0F);
}

// Keys after a query do not exist for it. `ahead`: the first key's position less the first query's.
void mask_future(QueryTile& tile, int64_t keys, int64_t ahead) {
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t blind = std::clamp<int64_t>(ahead + j, 0, kTile);  // queries before this key
    std::fill_n(tile.scores + j * kTile, blind, -std::numeric_limits<float>::infinity());
  }
}

// Keys before a query's window or its sample do not exist for it either.
void mask_past(const SeenKeys& sees, int64_t T, int64_t i0, int64_t j0, int64_t keys,
               QueryTile& tile) {
  for (int64_t j = 0; j < keys; ++j) {
    const int64_t end = sees.end_query(j0 + j, T);
    const int64_t seeing = std::clamp<int64_t>(end - i0, 0, kTile);  // queries up to here see it
    std::fill_n(tile.scores + j * kTile + seeing, kTile - seeing,
                -std::numeric_limits<float>::infinity());
  }
}

// scores -> e^(score - max) with the maximum and the sum over all keys so far. A query that has seen
// no key yet keeps a maximum of -infinity and a sum of 0.
void online_softmax(QueryTile& tile, int64_t keys) {
  alignas(64) float top[kTile];
  std::copy_n(tile.max, kTile, top);
  for (int64_t j = 0; j < keys; ++j) {
    const float* s = tile.scores + j * kTile;
#pragma omp simd
    for (int64_t i = 0; i < kTile; ++i) top[i] = s[i] > top[i] ? s[i] : top[i];
  }
  constexpr float kUnseen = -std::numeric_limits<float>::infinity();
#pragma omp simd
  for (int64_t i = 0; i < kTile; ++i) {
    const float max = tile.max[i];
    tile.max[i] = top[i];
    top[i] = top[i] == kUnseen ? 0.0F : top[i];
    tile.rescale[i] = fast_exp(max - top[i]);
    tile.sum[i] *= tile.rescale[i];
  }
  for (int64_t j = 0; j < keys; ++j) {
    float* s = tile.scores + j * kTile;
#pragma omp simd
    for (int64_t i = 0; i < kTile; ++i) {
      s[i] = fast_exp(s[i] - top[i]);
      tile.sum[i] += s[i];
    }
  }
}

template <typename T>
void drop(const Flash<T>& f, QueryTile& tile, int64_t b, int64_t first, int64_t rows,
          int64_t keys) {
  float factors[kTile];
  for (int64_t i = 0; i < rows; ++i) {
    f.dropout.factors(b, first + i * f.p.T, keys, factors);
    for (int64_t j = 0; j < keys; ++j) tile.scores[j * kTile + i] *= factors[j];
  }
}

// All of y and lse for queries [i0, i0 + rows) of one head.
template <typename T>
void attend(const Flash<T>& f, int64_t b, int64_t h, int64_t i0) {
  const PackedHeads& p = f.p;
  const int64_t rows = std::min(kTile, p.T - i0);
  const SeenKeys sees = f.sees.of_row(b, p.T);
  const int64_t first = sees.first(i0) / kTile * kTile;
  const int64_t seen = sees.end(i0 + rows - 1, p.T);
  const int64_t kv = h / p.group();
  QueryTile tile;
  WideTile<T> wide;
  SumTile<T> results(f.y + p.y(b, i0, h), p.H * p.D);
  const Sums y = results.sums();
  load_queries(f.qkv + p.q(b, i0, h), rows, p, f.scale, tile);
  for (int64_t j0 = first; j0 < seen; j0 += kTile) {
    const int64_t n = std::min(kTile, seen - j0);
    const Floats keys = wide.of(f.qkv + p.k(b, j0, kv), n, p.D, p.width());
    gemm({.m = n,
          .n = kTile,
          .k = p.D,
          .a = keys.at,
          .b = tile.queries,
          .c = tile.scores,
          .lda = keys.ld});
    if (sees.causal && j0 + n > i0 + 1) mask_future(tile, n, j0 - i0);
    if (j0 < sees.first(i0 + rows - 1)) mask_past(sees, p.T, i0, j0, n, tile);
    online_softmax(tile, n);
    if (f.dropout.on()) drop(f, tile, b, (h * p.T + i0) * p.T + j0, rows, n);
    for (int64_t i = 0; j0 > first && i < rows; ++i) {
      for (int64_t d = 0; d < p.D; ++d) y.at[i * y.ld + d] *= tile.rescale[i];
    }
    const Floats values = wide.of(f.qkv + p.v(b, j0, kv), n, p.D, p.width());
    gemm({.m = rows,
          .n = p.D,
          .k = n,
          .a = tile.scores,
          .b = values.at,
          .c = y.at,
          .lda = kTile,
          .ldb = values.ld,
          .ldc = y.ld,
          .transpose_a = true,
          .accumulate = j0 > first});
  }
  for (int64_t i = 0; i < rows; ++i) {
    const float inverse = 1 / tile.sum[i];
    for (int64_t d = 0; d < p.D; ++d) y.at[i * y.ld + d] *= inverse;
    f.lse[(b * p.H + h) * p.T + i0 + i] = tile.max[i] + std::log(tile.sum[i]);
  }
  results.store(rows, p.D);
}

template <typename T>
void attend_all(const Flash<T>& f) {
  const int64_t tiles = ceil_div(f.p.T, kTile);
#pragma omp parallel for schedule(dynamic)
  for (int64_t task = 0; task < f.p.B * f.p.H * tiles; ++task) {
    const int64_t head = task / tiles;
    // Longest first: under a causal mask the last queries see most keys.
    attend(f, head / f.p.H, head % f.p.H, (tiles - 1 - task % tiles) * kTile);
  }
}

}  // namespace

void flash_attention_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
    attend_all(Flash<T>{p, attention_dropout(a, 1), seen_keys(a, 1), score_scale(p, a.attrs),
                        a.in<T>(0), a.out<T>(0), a.out<float>(1)});
  });
}

}  // namespace snug::ops
