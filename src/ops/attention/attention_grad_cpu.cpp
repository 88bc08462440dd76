#include <omp.h>

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "base/vec_math.h"
#include "ops/attention/attention_cpu.h"
#include "ops/attention/attention_dropout.h"
#include "ops/attention/packed_heads.h"
#include "ops/blas/blas.h"

namespace snug::ops {
namespace {

// With P the probabilities, M the dropout factors and delta_i = sum_j P_ij M_ij (dy_i . v_j) = dy_i
// . y_i:
//   dv = (P M)^T dy     dS = P (M (dy v^T) - delta) / sqrt(D)     dq = dS k     dk = dS^T q
struct Grad {
  PackedHeads p;
  AttentionDropout dropout;
  bool causal;
  const float* qkv;    // [B, T, (H+2K)*D]
  const float* dy;     // [B, T, H*D]
  const float* probs;  // standard: [B, H, T, T]
  const float* lse;    // flash: [B, H, T], from which P is computed again
  float* delta;        // [B, H, T]
  float* dqkv;         // as qkv

  float scale() const { return 1 / std::sqrt(static_cast<float>(p.D)); }
  int64_t rows(int64_t i0) const { return std::min(kTile, p.T - i0); }
  int64_t row(int64_t b, int64_t h, int64_t i) const { return (b * p.H + h) * p.T + i; }
};

// kTile keys with their values, transposed for the products that need them so, and scratch for one
// tile of queries.
struct KeyTile {
  int64_t b, kv, j0, keys;
  alignas(64) float keys_t[kMaxHeadDim * kTile];    // [D, kTile]
  alignas(64) float values_t[kMaxHeadDim * kTile];  // [D, kTile]
  alignas(64) float probs[kTile * kTile];           // [queries, kTile]: P, then P M
  alignas(64) float dscores[kTile * kTile];         // [queries, kTile]: dy v^T, then dS
};

void transpose(const float* from, int64_t rows, int64_t columns, int64_t stride, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * kTile + r] = from[r * stride + c];
  }
}

void load_keys(const Grad& g, int64_t b, int64_t kv, int64_t j0, KeyTile& tile) {
  const PackedHeads& p = g.p;
  tile.b = b, tile.kv = kv, tile.j0 = j0, tile.keys = g.rows(j0);
  transpose(g.qkv + p.k(b, j0, kv), tile.keys, p.D, p.width(), tile.keys_t);
  transpose(g.qkv + p.v(b, j0, kv), tile.keys, p.D, p.width(), tile.values_t);
}

// tile.probs = P for queries from i0 on.
void load_probs(const Grad& g, int64_t h, int64_t i0, KeyTile& tile) {
  const PackedHeads& p = g.p;
  const int64_t rows = g.rows(i0);
  if (g.probs != nullptr) {
    for (int64_t i = 0; i < rows; ++i) {
      std::copy_n(g.probs + g.row(tile.b, h, i0 + i) * p.T + tile.j0, tile.keys,
                  tile.probs + i * kTile);
    }
    return;
  }
  gemm({.m = rows,
        .n = tile.keys,
        .k = p.D,
        .a = g.qkv + p.q(tile.b, i0, h),
        .b = tile.keys_t,
        .c = tile.probs,
        .lda = p.width(),
        .ldb = kTile,
        .ldc = kTile,
        .alpha = g.scale()});
  for (int64_t i = 0; i < rows; ++i) {
    float* row = tile.probs + i * kTile;
    const float lse = g.lse[g.row(tile.b, h, i0 + i)];
    const int64_t seen = g.causal ? std::min(tile.keys, i0 + i + 1 - tile.j0) : tile.keys;
#pragma omp simd
    for (int64_t j = 0; j < seen; ++j) row[j] = fast_exp(row[j] - lse);
    std::fill(row + seen, row + tile.keys, 0.0F);
  }
}

// tile.dscores = dS and tile.probs = P M for queries from i0 on.
void load_dscores(const Grad& g, int64_t h, int64_t i0, KeyTile& tile) {
  const PackedHeads& p = g.p;
  const int64_t rows = g.rows(i0);
  const float scale = g.scale();
  load_probs(g, h, i0, tile);
  gemm({.m = rows,
        .n = tile.keys,
        .k = p.D,
        .a = g.dy + p.y(tile.b, i0, h),
        .b = tile.values_t,
        .c = tile.dscores,
        .lda = p.H * p.D,
        .ldb = kTile,
        .ldc = kTile});
  for (int64_t i = 0; i < rows; ++i) {
    float* probs = tile.probs + i * kTile;
    float* ds = tile.dscores + i * kTile;
    const float delta = g.delta[g.row(tile.b, h, i0 + i)];
    if (g.dropout.on()) {
      float factors[kTile];
      g.dropout.factors(tile.b, (h * p.T + i0 + i) * p.T + tile.j0, tile.keys, factors);
      for (int64_t j = 0; j < tile.keys; ++j) {
        ds[j] = probs[j] * (factors[j] * ds[j] - delta) * scale;
        probs[j] *= factors[j];
      }
    } else {
#pragma omp simd
      for (int64_t j = 0; j < tile.keys; ++j) ds[j] = probs[j] * (ds[j] - delta) * scale;
    }
  }
}

// dk and dv of the tile (+)= what the queries from i0 on give.
void add_dkv(const Grad& g, int64_t h, int64_t i0, const KeyTile& tile, bool first) {
  const PackedHeads& p = g.p;
  gemm({.m = tile.keys,
        .n = p.D,
        .k = g.rows(i0),
        .a = tile.probs,
        .b = g.dy + p.y(tile.b, i0, h),
        .c = g.dqkv + p.v(tile.b, tile.j0, tile.kv),
        .lda = kTile,
        .ldb = p.H * p.D,
        .ldc = p.width(),
        .transpose_a = true,
        .accumulate = !first});
  gemm({.m = tile.keys,
        .n = p.D,
        .k = g.rows(i0),
        .a = tile.dscores,
        .b = g.qkv + p.q(tile.b, i0, h),
        .c = g.dqkv + p.k(tile.b, tile.j0, tile.kv),
        .lda = kTile,
        .ldb = p.width(),
        .ldc = p.width(),
        .transpose_a = true,
        .accumulate = !first});
}

// dq of the queries from i0 on (+)= what the tile gives.
void add_dq(const Grad& g, int64_t h, int64_t i0, const KeyTile& tile) {
  const PackedHeads& p = g.p;
  gemm({.m = g.rows(i0),
        .n = p.D,
        .k = tile.keys,
        .a = tile.dscores,
        .b = g.qkv + p.k(tile.b, tile.j0, tile.kv),
        .c = g.dqkv + p.q(tile.b, i0, h),
        .lda = kTile,
        .ldb = p.width(),
        .ldc = p.width(),
        .accumulate = tile.j0 > 0});
}

// dk and dv of one tile of keys, over the group's heads and their queries in order; and, if asked,
// its part of dq.
void key_tile_grad(const Grad& g, int64_t b, int64_t kv, int64_t j0, bool with_dq) {
  KeyTile tile;
  load_keys(g, b, kv, j0, tile);
  const int64_t first_h = kv * g.p.group();
  const int64_t first_i = g.causal ? j0 : 0;
  for (int64_t h = first_h; h < first_h + g.p.group(); ++h) {
    for (int64_t i0 = first_i; i0 < g.p.T; i0 += kTile) {
      load_dscores(g, h, i0, tile);
      add_dkv(g, h, i0, tile, h == first_h && i0 == first_i);
      if (with_dq) add_dq(g, h, i0, tile);
    }
  }
}

// dq of one tile of queries, over the keys in order.
void query_tile_grad(const Grad& g, int64_t b, int64_t h, int64_t i0) {
  KeyTile tile;
  const int64_t seen = g.causal ? i0 + g.rows(i0) : g.p.T;
  for (int64_t j0 = 0; j0 < seen; j0 += kTile) {
    load_keys(g, b, h / g.p.group(), j0, tile);
    load_dscores(g, h, i0, tile);
    add_dq(g, h, i0, tile);
  }
}

// One task per kv head makes five products per tile and shares nothing. Where that leaves threads
// idle, keys and queries are walked apart: seven products, but a task per tile. Both sum in the
// same order, to the same bits.
void backward(const Grad& g) {
  const PackedHeads& p = g.p;
  const int64_t heads = p.B * p.K;
  const int64_t tiles = ceil_div(p.T, kTile);
  const int64_t threads = omp_get_max_threads();
  if (5 * threads * ceil_div(heads, threads) <= 7 * heads) {
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

// delta from the rows of y.
void flash_delta(const Grad& g, const float* y) {
  const PackedHeads& p = g.p;
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < p.B * p.T; ++row) {
    for (int64_t h = 0; h < p.H; ++h) {
      const int64_t at = p.y(0, row, h);
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t d = 0; d < p.D; ++d) dot += g.dy[at + d] * y[at + d];
      g.delta[g.row(row / p.T, h, row % p.T)] = dot;
    }
  }
}

// delta from the probabilities: y was not kept.
void standard_delta(const Grad& g) {
  const PackedHeads& p = g.p;
  const int64_t tiles = ceil_div(p.T, kTile);
#pragma omp parallel for schedule(dynamic)
  for (int64_t task = 0; task < p.B * p.H * tiles; ++task) {
    const int64_t b = task / tiles / p.H;
    const int64_t h = task / tiles % p.H;
    const int64_t i0 = (tiles - 1 - task % tiles) * kTile;
    const int64_t rows = g.rows(i0);
    const int64_t seen = g.causal ? i0 + rows : p.T;
    float* delta = g.delta + g.row(b, h, i0);
    std::fill_n(delta, rows, 0.0F);
    for (int64_t j0 = 0; j0 < seen; j0 += kTile) {
      const int64_t keys = std::min(kTile, seen - j0);
      float dprobs[kTile * kTile];
      gemm({.m = rows,
            .n = keys,
            .k = p.D,
            .a = g.dy + p.y(b, i0, h),
            .b = g.qkv + p.v(b, j0, h / p.group()),
            .c = dprobs,
            .lda = p.H * p.D,
            .ldb = p.width(),
            .ldc = kTile,
            .transpose_b = true});
      for (int64_t i = 0; i < rows; ++i) {
        const float* probs = g.probs + g.row(b, h, i0 + i) * p.T + j0;
        float factors[kTile];
        std::fill_n(factors, keys, 1.0F);
        if (g.dropout.on()) {
          g.dropout.factors(b, (h * p.T + i0 + i) * p.T + j0, keys, factors);
        }
        float sum = 0;
#pragma omp simd reduction(+ : sum)
        for (int64_t j = 0; j < keys; ++j) sum += probs[j] * factors[j] * dprobs[i * kTile + j];
        delta[i] += sum;
      }
    }
  }
}

Grad grad_of(const KernelArgs& a, size_t dy) {
  return {.p = packed_heads(a.in(0).shape(), a.attrs),
          .dropout = attention_dropout(a, dy + 1),
          .causal = a.attrs.b("causal"),
          .qkv = a.in<float>(0),
          .dy = a.in<float>(dy),
          .probs = nullptr,
          .lse = nullptr,
          .delta = reinterpret_cast<float*>(a.workspace.data()),
          .dqkv = a.out<float>(0)};
}

}  // namespace

void attention_grad_cpu(const KernelArgs& a) {
  Grad g = grad_of(a, 2);
  g.probs = a.in<float>(1);
  standard_delta(g);
  backward(g);
}

void flash_attention_grad_cpu(const KernelArgs& a) {
  Grad g = grad_of(a, 3);
  g.lse = a.in<float>(2);
  flash_delta(g, a.in<float>(1));
  backward(g);
}

}  // namespace snug::ops
