#include "ops/attention/attention_grad_tiles_cpu.h"

#include <algorithm>

#include "base/vec_math.h"
#include "kernels/cpu/gemm.h"

namespace snug::ops {
namespace {

template <typename T>
void transpose(const T* from, int64_t rows, int64_t columns, int64_t stride, float* to) {
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < columns; ++c) to[c * kTile + r] = from[r * stride + c];
  }
}

}  // namespace

template <typename T>
AttentionGrad<T>::AttentionGrad(const KernelArgs& a, size_t dy_port)
    : p(packed_heads(a.in(0).shape(), a.attrs)),
      dropout(attention_dropout(a, dy_port + 1)),
      sees(seen_keys(a, dy_port + 1)),
      scale(score_scale(p, a.attrs)),
      qkv(a.in<T>(0)),
      dy(a.in<T>(dy_port)),
      delta(reinterpret_cast<float*>(a.workspace.data())),
      dqkv(a.out<T>(0)) {}

template <typename T>
void AttentionGrad<T>::load_keys(int64_t b, int64_t kv, int64_t j0, KeyTile<T>& tile) const {
  const T* keys = qkv + p.k(b, j0, kv);
  tile.b = b, tile.kv = kv, tile.j0 = j0, tile.size = std::min(kTile, p.T - j0);
  tile.keys = tile.wide_keys.of(keys, tile.size, p.D, p.width());
  transpose(keys, tile.size, p.D, p.width(), tile.keys_t);
  transpose(qkv + p.v(b, j0, kv), tile.size, p.D, p.width(), tile.values_t);
}

template <typename T>
void AttentionGrad<T>::load_queries(int64_t b, int64_t h, int64_t i0, int64_t end,
                                    QueryTile<T>& tile) const {
  tile.b = b, tile.h = h, tile.i0 = i0, tile.size = std::min(kTile, end - i0);
  tile.queries = tile.wide_queries.of(qkv + p.q(b, i0, h), tile.size, p.D, p.width());
  tile.dy = tile.wide_dy.of(dy + p.y(b, i0, h), tile.size, p.D, p.H * p.D);
}

// scores.probs = P
template <typename T>
void AttentionGrad<T>::load_probs(const QueryTile<T>& q, const KeyTile<T>& k,
                                  const Scores& scores) const {
  if (probs != nullptr) {
    for (int64_t i = 0; i < q.size; ++i) {
      widen(probs + row(q.b, q.h, q.i0 + i) * p.T + k.j0, k.size, scores.probs + i * scores.ld);
    }
    return;
  }
  gemm({.m = q.size,
        .n = k.size,
        .k = p.D,
        .a = q.queries.at,
        .b = k.keys_t,
        .c = scores.probs,
        .lda = q.queries.ld,
        .ldb = kTile,
        .ldc = scores.ld,
        .alpha = scale});
  const SeenKeys seen = seen_in(q.b);
  for (int64_t i = 0; i < q.size; ++i) {
    float* of_query = scores.probs + i * scores.ld;
    const float shift = lse[row(q.b, q.h, q.i0 + i)];
    const auto in_tile = [&](int64_t key) { return std::clamp<int64_t>(key - k.j0, 0, k.size); };
    const int64_t first = in_tile(seen.first(q.i0 + i));
    const int64_t end = std::max(first, in_tile(seen.end(q.i0 + i, p.T)));
    std::fill(of_query, of_query + first, 0.0F);
#pragma omp simd
    for (int64_t j = first; j < end; ++j) of_query[j] = fast_exp(of_query[j] - shift);
    std::fill(of_query + end, of_query + k.size, 0.0F);
  }
}

template <typename T>
void AttentionGrad<T>::load_scores(const QueryTile<T>& q, const KeyTile<T>& k,
                                   const Scores& scores) const {
  load_probs(q, k, scores);
  gemm({.m = q.size,
        .n = k.size,
        .k = p.D,
        .a = q.dy.at,
        .b = k.values_t,
        .c = scores.dscores,
        .lda = q.dy.ld,
        .ldb = kTile,
        .ldc = scores.ld});
  for (int64_t i = 0; i < q.size; ++i) {
    float* prob = scores.probs + i * scores.ld;
    float* ds = scores.dscores + i * scores.ld;
    const float shift = delta[row(q.b, q.h, q.i0 + i)];
    if (dropout.on()) {
      float factors[kTile];
      dropout.factors(q.b, (q.h * p.T + q.i0 + i) * p.T + k.j0, k.size, factors);
      for (int64_t j = 0; j < k.size; ++j) {
        ds[j] = prob[j] * (factors[j] * ds[j] - shift) * scale;
        prob[j] *= factors[j];
      }
    } else {
#pragma omp simd
      for (int64_t j = 0; j < k.size; ++j) ds[j] = prob[j] * (ds[j] - shift) * scale;
    }
  }
}

template <typename T>
void AttentionGrad<T>::add_dq(const QueryTile<T>& q, const KeyTile<T>& k, const Scores& scores,
                              Sums dq) const {
  gemm({.m = q.size,
        .n = p.D,
        .k = k.size,
        .a = scores.dscores,
        .b = k.keys.at,
        .c = dq.at,
        .lda = scores.ld,
        .ldb = k.keys.ld,
        .ldc = dq.ld,
        .accumulate = k.j0 > first_key_tile(q.b, q.i0)});
}

template <typename T>
void AttentionGrad<T>::add_dkv(const QueryTile<T>& q, int64_t keys, const Scores& scores, Sums dk,
                               Sums dv, bool first) const {
  const auto add = [&](const float* weights, const Floats& rows, const Sums& sums) {
    gemm({.m = keys,
          .n = p.D,
          .k = q.size,
          .a = weights,
          .b = rows.at,
          .c = sums.at,
          .lda = scores.ld,
          .ldb = rows.ld,
          .ldc = sums.ld,
          .transpose_a = true,
          .accumulate = !first});
  };
  add(scores.probs, q.dy, dv);
  add(scores.dscores, q.queries, dk);
}

template <typename T>
void AttentionGrad<T>::delta_from_y(const T* y) const {
#pragma omp parallel for schedule(static)
  for (int64_t token = 0; token < p.B * p.T; ++token) {
    for (int64_t h = 0; h < p.H; ++h) {
      const int64_t at = p.y(0, token, h);
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t d = 0; d < p.D; ++d) dot += float{dy[at + d]} * float{y[at + d]};
      delta[row(token / p.T, h, token % p.T)] = dot;
    }
  }
}

template struct AttentionGrad<float>;
template struct AttentionGrad<Bf16>;
template struct AttentionGrad<F16>;

}  // namespace snug::ops
