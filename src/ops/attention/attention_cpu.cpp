#include "ops/attention/attention_cpu.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "base/vec_math.h"
#include "ops/attention/attention_dropout.h"
#include "ops/attention/packed_heads.h"
#include "ops/blas/blas.h"

namespace snug::ops {
namespace {

// scores[0, n) -> probabilities; zeros up to T.
void softmax(float* scores, int64_t n, int64_t T) {
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
  std::fill(scores + n, scores + T, 0.0F);
}

struct Standard {
  PackedHeads p;
  AttentionDropout dropout;
  bool causal;
  const float* qkv;  // [B, T, (H+2K)*D]
  float* y;          // [B, T, H*D]
  float* probs;      // [B, H, T, T]
};

// y = dropout(probs) v for queries [i0, i0 + rows) of one head, which see the first `seen` keys.
void weigh_values(const Standard& s, int64_t b, int64_t h, int64_t i0, int64_t rows, int64_t seen) {
  const PackedHeads& p = s.p;
  const float* probs = s.probs + ((b * p.H + h) * p.T + i0) * p.T;
  Gemm product{.m = rows,
               .n = p.D,
               .k = seen,
               .a = probs,
               .b = s.qkv + p.v(b, 0, h / p.group()),
               .c = s.y + p.y(b, i0, h),
               .lda = p.T,
               .ldb = p.width(),
               .ldc = p.H * p.D};
  if (!s.dropout.on()) return gemm(product);
  float kept[kTile * kTile];
  product.a = kept;
  product.lda = kTile;
  for (int64_t j0 = 0; j0 < seen; j0 += kTile) {
    product.k = std::min(kTile, seen - j0);
    for (int64_t i = 0; i < rows; ++i) {
      float* row = kept + i * kTile;
      s.dropout.factors(b, (h * p.T + i0 + i) * p.T + j0, product.k, row);
      for (int64_t j = 0; j < product.k; ++j) row[j] *= probs[i * p.T + j0 + j];
    }
    gemm(product);
    product.accumulate = true;
    product.b += kTile * p.width();
  }
}

}  // namespace

void attention_cpu(const KernelArgs& a) {
  const Standard s{packed_heads(a.in(0).shape(), a.attrs),
                   attention_dropout(a, 1),
                   a.attrs.b("causal"),
                   a.in<float>(0),
                   a.out<float>(0),
                   a.out<float>(1)};
  const PackedHeads& p = s.p;
  const float scale = 1 / std::sqrt(static_cast<float>(p.D));
  const int64_t tiles = ceil_div(p.T, kTile);
#pragma omp parallel for schedule(dynamic)
  for (int64_t task = 0; task < p.B * p.H * tiles; ++task) {
    const int64_t b = task / tiles / p.H;
    const int64_t h = task / tiles % p.H;
    const int64_t i0 = (tiles - 1 - task % tiles) * kTile;  // longest first
    const int64_t rows = std::min(kTile, p.T - i0);
    const int64_t seen = s.causal ? i0 + rows : p.T;
    float* probs = s.probs + ((b * p.H + h) * p.T + i0) * p.T;
    gemm({.m = rows,
          .n = seen,
          .k = p.D,
          .a = s.qkv + p.q(b, i0, h),
          .b = s.qkv + p.k(b, 0, h / p.group()),
          .c = probs,
          .lda = p.width(),
          .ldb = p.width(),
          .ldc = p.T,
          .transpose_b = true,
          .alpha = scale});
    for (int64_t i = 0; i < rows; ++i) softmax(probs + i * p.T, s.causal ? i0 + i + 1 : p.T, p.T);
    weigh_values(s, b, h, i0, rows, seen);
  }
}

}  // namespace snug::ops
