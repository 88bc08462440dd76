// Forward of the standard and the chunked kind: whole rows of scores, then softmax, then the
// values. They differ in where scores are stored and in what is kept of them.
#include "ops/attention/attention_cpu.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "base/vec_math.h"
#include "kernels/cpu/gemm.h"
#include "kernels/float_kernels.h"
#include "ops/attention/attention_dropout_cpu.h"
#include "ops/attention/float_tiles_cpu.h"

namespace snug::ops {
namespace {

constexpr int64_t kHalvesChunk = 2 * kTile;  // queries whose scores the standard kind holds in f32

template <typename T>
struct Forward {
  PackedHeads p;
  AttentionDropout dropout;
  SeenKeys sees;
  float scale;
  const T* qkv;  // [B, T, (H+2K)*D]
  T* y;          // [B, T, H*D]
  T* probs;      // standard: [B, H, T, T]
  float* lse;    // chunked: [B, H, T]
};

template <typename T>
Forward<T> forward_of(const KernelArgs& a) {
  const PackedHeads p = packed_heads(a.in(0).shape(), a.attrs);
  return {p,
          attention_dropout(a, 1),
          seen_keys(a, 1),
          score_scale(p, a.attrs),
          a.in<T>(0),
          a.out<T>(0),
          nullptr,
          nullptr};
}

// kTile queries of one head, or fewer, and their scores.
struct Rows {
  int64_t b, h, i0, size;
  SeenKeys sees;
  int64_t first, seen;  // keys [first, seen) are seen by one of them
  float* scores;        // [size, T]
};

template <typename T>
Rows rows_of(const Forward<T>& f, int64_t b, int64_t h, int64_t i0, int64_t end, float* scores) {
  const int64_t size = std::min(kTile, end - i0);
  const SeenKeys sees = f.sees.of_row(b, f.p.T);
  return {b, h, i0, size, sees, sees.first(i0), sees.end(i0 + size - 1, f.p.T), scores};
}

// scores = q k^T * scale
template <typename T>
void score(const Forward<T>& f, const Rows& rows) {
  const PackedHeads& p = f.p;
  WideTile<T> wide_queries, wide_keys;
  const Floats queries =
      wide_queries.of(f.qkv + p.q(rows.b, rows.i0, rows.h), rows.size, p.D, p.width());
  const int64_t step = kIsFloat<T> ? rows.seen - rows.first : kTile;
  for (int64_t j0 = rows.first; j0 < rows.seen; j0 += step) {
    const int64_t n = std::min(step, rows.seen - j0);
    const Floats keys =
        wide_keys.of(f.qkv + p.k(rows.b, j0, rows.h / p.group()), n, p.D, p.width());
    gemm({.m = rows.size,
          .n = n,
          .k = p.D,
          .a = queries.at,
          .b = keys.at,
          .c = rows.scores + j0,
          .lda = queries.ld,
          .ldb = keys.ld,
          .ldc = p.T,
          .transpose_b = true,
          .alpha = f.scale});
  }
}

// scores[0, n) -> probabilities; returns their log-sum-exp.
float softmax(float* scores, int64_t n) {
  float max = scores[0];
#pragma omp simd reduction(max : max)
  for (int64_t j = 0; j < n; ++j) max = scores[j] > max ? scores[j] : max;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) {
    scores[j] = fast_exp(scores[j] - max);
    sum += scores[j];
  }
  const float inverse = 1 / sum;
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) scores[j] *= inverse;
  return max + std::log(sum);
}

// Scores to probabilities, and what backward wants of them. Keys that a query does not see get 0.
template <typename T>
void normalize(const Forward<T>& f, const Rows& rows) {
  const PackedHeads& p = f.p;
  for (int64_t i = 0; i < rows.size; ++i) {
    float* scores = rows.scores + i * p.T;
    const int64_t first = rows.sees.first(rows.i0 + i);
    const int64_t end = rows.sees.end(rows.i0 + i, p.T);
    const float lse = softmax(scores + first, end - first);
    std::fill(scores + rows.first, scores + first, 0.0F);
    std::fill(scores + end, scores + rows.seen, 0.0F);
    const int64_t row = (rows.b * p.H + rows.h) * p.T + rows.i0 + i;
    if (f.lse != nullptr) f.lse[row] = lse;
    if (f.probs == nullptr) continue;
    T* probs = f.probs + row * p.T;
    // f32: the scores are in probs
    if constexpr (!kIsFloat<T>) narrow(scores + first, end - first, probs + first);
    std::fill(probs, probs + first, T{});
    std::fill(probs + end, probs + p.T, T{});
  }
}

// y = dropout(probabilities) v
template <typename T>
void weigh_values(const Forward<T>& f, const Rows& rows) {
  const PackedHeads& p = f.p;
  float kept[kTile * kTile];
  WideTile<T> wide_values;
  SumTile<T> results(f.y + p.y(rows.b, rows.i0, rows.h), p.H * p.D);
  const Sums y = results.sums();
  const int64_t step = kIsFloat<T> && !f.dropout.on() ? rows.seen - rows.first : kTile;
  for (int64_t j0 = rows.first; j0 < rows.seen; j0 += step) {
    const int64_t n = std::min(step, rows.seen - j0);
    const float* probs = rows.scores + j0;
    for (int64_t i = 0; f.dropout.on() && i < rows.size; ++i) {
      float* row = kept + i * kTile;
      f.dropout.factors(rows.b, (rows.h * p.T + rows.i0 + i) * p.T + j0, n, row);
      for (int64_t j = 0; j < n; ++j) row[j] *= probs[i * p.T + j];
    }
    const Floats values =
        wide_values.of(f.qkv + p.v(rows.b, j0, rows.h / p.group()), n, p.D, p.width());
    gemm({.m = rows.size,
          .n = p.D,
          .k = n,
          .a = f.dropout.on() ? kept : probs,
          .b = values.at,
          .c = y.at,
          .lda = f.dropout.on() ? kTile : p.T,
          .ldb = values.ld,
          .ldc = y.ld,
          .accumulate = j0 > rows.first});
  }
  results.store(rows.size, p.D);
}

template <typename T>
void attend(const Forward<T>& f, const Rows& rows) {
  score(f, rows);
  normalize(f, rows);
  weigh_values(f, rows);
}

// Scores alias the probabilities, where they stay.
void attend_in_place(const Forward<float>& f) {
  const PackedHeads& p = f.p;
  const int64_t tiles = ceil_div(p.T, kTile);
#pragma omp parallel for schedule(dynamic)
  for (int64_t task = 0; task < p.B * p.H * tiles; ++task) {
    const int64_t head = task / tiles;
    const int64_t i0 = (tiles - 1 - task % tiles) * kTile;  // longest first
    attend(f, rows_of(f, head / p.H, head % p.H, i0, p.T, f.probs + (head * p.T + i0) * p.T));
  }
}

// Chunk after chunk, all heads of one sample at a time. scores: [H, chunk, T].
template <typename T>
void attend_in_chunks(const Forward<T>& f, int64_t chunk, float* scores) {
  const PackedHeads& p = f.p;
#pragma omp parallel
  for (int64_t b = 0; b < p.B; ++b) {
    for (int64_t c0 = 0; c0 < p.T; c0 += chunk) {
      const int64_t end = std::min(c0 + chunk, p.T);
      const int64_t tiles = ceil_div(end - c0, kTile);
#pragma omp for schedule(dynamic)  // waits: the next chunk writes over these scores
      for (int64_t task = 0; task < p.H * tiles; ++task) {
        const int64_t h = task / tiles;
        const int64_t i = task % tiles * kTile;
        attend(f, rows_of(f, b, h, c0 + i, end, scores + (h * chunk + i) * p.T));
      }
    }
  }
}

}  // namespace

int64_t chunked_attention_workspace(const PackedHeads& p, int64_t chunk) {
  return Type{Dtype::f32, {p.H, std::min(chunk, p.T), p.T}}.bytes();
}

int64_t attention_workspace(const PackedHeads& p, Dtype dtype) {
  return dtype == Dtype::f32 ? 0 : chunked_attention_workspace(p, kHalvesChunk);
}

void attention_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    Forward<T> f = forward_of<T>(a);
    f.probs = a.out<T>(1);
    if constexpr (kIsFloat<T>) {
      attend_in_place(f);
    } else {
      attend_in_chunks(f, std::min(kHalvesChunk, f.p.T),
                       reinterpret_cast<float*>(a.workspace.data()));
    }
  });
}

void chunked_attention_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    Forward<T> f = forward_of<T>(a);
    f.lse = a.out<float>(1);
    attend_in_chunks(f, std::min(a.attrs.i("chunk"), f.p.T),
                     reinterpret_cast<float*>(a.workspace.data()));
  });
}

}  // namespace snug::ops
