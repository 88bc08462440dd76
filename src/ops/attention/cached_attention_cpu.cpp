#include "ops/attention/cached_attention_cpu.h"

#include <algorithm>
#include <limits>

#include "base/vec_math.h"
#include "kernels/float_kernels.h"
#include "ops/attention/attention_cpu.h"
#include "ops/attention/key_value_cache.h"

namespace snug::ops {
namespace {

template <typename T>
void write_token(const Caches<T>& a, int64_t b, int64_t t) {
  const PackedHeads& p = a.c.p;
  const int64_t to = a.c.at(b, a.c.position(b, t), 0);
  std::copy_n(a.qkv + p.k(b, t, 0), p.K * p.D, a.keys + to);
  std::copy_n(a.qkv + p.v(b, t, 0), p.K * p.D, a.values + to);
}

// The softmax of one query over all keys so far, and their values by it.
struct Mean {
  float max = -std::numeric_limits<float>::infinity();
  float sum = 0;
  float y[kMaxHeadDim] = {};

  // scores -> e^(score - max), the rest shrunk as the maximum grew.
  void weigh(float* scores, int64_t keys, int64_t D) {
    const float top = std::max(max, *std::max_element(scores, scores + keys));
    const float rescale = fast_exp(max - top);
    max = top;
    sum *= rescale;
#pragma omp simd
    for (int64_t d = 0; d < D; ++d) y[d] *= rescale;
#pragma omp simd
    for (int64_t j = 0; j < keys; ++j) scores[j] = fast_exp(scores[j] - top);
    for (int64_t j = 0; j < keys; ++j) sum += scores[j];
  }
};

// One query of one head, its keys a tile at a time.
template <typename T>
void attend(const Caches<T>& a, int64_t b, int64_t t, int64_t h) {
  const PackedHeads& p = a.c.p;
  const int64_t row = p.K * p.D;
  const T* from = a.qkv + p.q(b, t, h);
  float q[kMaxHeadDim];
#pragma omp simd
  for (int64_t d = 0; d < p.D; ++d) q[d] = from[d] * a.scale;
  Mean mean;
  const int64_t last = a.c.position(b, t);
  for (int64_t first = a.c.first(last); first <= last; first += kTile) {
    const int64_t keys = std::min(kTile, last - first + 1);
    const int64_t at = a.c.at(b, first, h / p.group());
    float scores[kTile];
    for (int64_t j = 0; j < keys; ++j) {
      const T* key = a.keys + at + j * row;
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t d = 0; d < p.D; ++d) dot += q[d] * float(key[d]);
      scores[j] = dot;
    }
    mean.weigh(scores, keys, p.D);
    for (int64_t j = 0; j < keys; ++j) {
      const T* value = a.values + at + j * row;
      const float weight = scores[j];
#pragma omp simd
      for (int64_t d = 0; d < p.D; ++d) mean.y[d] += weight * float(value[d]);
    }
  }
  T* y = a.y + p.y(b, t, h);
#pragma omp simd
  for (int64_t d = 0; d < p.D; ++d) store(y[d], mean.y[d] / mean.sum);
}

// All tokens are written before one is read: those of a chunk see each other.
template <typename T>
void run(const Caches<T>& a) {
  const PackedHeads& p = a.c.p;
#pragma omp parallel
  {
#pragma omp for schedule(static)
    for (int64_t row = 0; row < p.B * p.T; ++row) write_token(a, row / p.T, row % p.T);
#pragma omp for collapse(2) schedule(dynamic, 1)
    for (int64_t row = 0; row < p.B * p.T; ++row) {
      for (int64_t h = 0; h < p.H; ++h) attend(a, row / p.T, row % p.T, h);
    }
  }
}

}  // namespace

void cached_attention_cpu(const KernelArgs& a) {
  const KeyValueCache c = key_value_cache(a);
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    run(Caches<T>{.c = c,
                  .scale = score_scale(c.p, a.attrs),
                  .qkv = a.in<T>(0),
                  .keys = a.out<T>(1),
                  .values = a.out<T>(2),
                  .y = a.out<T>(0)});
  });
}

}  // namespace snug::ops
