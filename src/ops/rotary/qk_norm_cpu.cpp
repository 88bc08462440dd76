#include "ops/rotary/qk_norm_cpu.h"

#include <cmath>

#include "kernels/cpu/sum_blocks.h"
#include "kernels/float_kernels.h"

namespace snug::ops {
namespace {

// Queries and keys are normed by weights of their own.
template <typename T>
struct Weights {
  const T *q, *k;
  float offset;

  explicit Weights(const KernelArgs& a)
      : q(a.in<T>(1)), k(a.in<T>(2)), offset(static_cast<float>(a.attrs.f("offset", 0))) {}
  const T* of(bool key) const { return key ? k : q; }
};

QkNormParts parts_of(const KernelArgs& a) {
  return qk_norm_parts(a.in(0).shape(), a.in(1).shape(), a.attrs);
}

template <typename T>
void forward(const KernelArgs& a) {
  const QkNormParts parts = parts_of(a);
  const int64_t width = parts.p.width();
  const Weights<T> weights(a);
  const T* qkv = a.in<T>(0);      // [B, T, (H+2K)*D]
  T* y = a.out<T>(0);             // the same, may be qkv
  float* rstd = a.out<float>(1);  // [B*T, parts]
  const auto eps = static_cast<float>(a.attrs.f("eps"));
#pragma omp parallel for schedule(static)
  for (int64_t row = 0; row < parts.p.B * parts.p.T; ++row) {
    for (int64_t g = 0; g < parts.count(); ++g) {
      const int64_t C = parts.width(g);
      const T* x = qkv + row * width + parts.start(g);
      const T* weight = weights.of(parts.is_key(g));
      T* out = y + row * width + parts.start(g);
      float squares = 0;
#pragma omp simd reduction(+ : squares)
      for (int64_t c = 0; c < C; ++c) squares += float(x[c]) * float(x[c]);
      const float s = rstd[row * parts.count() + g] =
          1 / std::sqrt(squares / static_cast<float>(C) + eps);
#pragma omp simd
      for (int64_t c = 0; c < C; ++c) store(out[c], x[c] * s * (weight[c] + weights.offset));
    }
    const T* v = qkv + row * width + parts.normed();
    if (y != qkv) std::copy(v, v + width - parts.normed(), y + row * width + parts.normed());
  }
}

// One part of a row, with n = x * rstd: adds dy * n to dweight, and makes
// dx = rstd * (dy * weight - n * mean(dy * weight * n)). dx may be dy.
template <typename T>
void backward_part(const T* x, const T* weight, float offset, float rstd, const T* dy, int64_t C,
                   T* dx, float* dweight) {
  float dot = 0;
#pragma omp simd reduction(+ : dot)
  for (int64_t c = 0; c < C; ++c) {
    const float n = x[c] * rstd;
    dot += dy[c] * (weight[c] + offset) * n;
    dweight[c] += dy[c] * n;
  }
  const float mean = dot / static_cast<float>(C);
#pragma omp simd
  for (int64_t c = 0; c < C; ++c) {
    store(dx[c], rstd * (dy[c] * (weight[c] + offset) - x[c] * rstd * mean));
  }
}

template <typename T>
void backward(const KernelArgs& a) {
  const QkNormParts parts = parts_of(a);
  const int64_t width = parts.p.width(), rows = parts.p.B * parts.p.T;
  const int64_t blocks = qk_norm_grad_row_blocks(parts);
  const int64_t of_q = a.in(1).elements(), stride = of_q + a.in(2).elements();
  const Weights<T> weights(a);
  const T* qkv = a.in<T>(0);
  const float* rstd = a.in<float>(3);
  const T* dy = a.in<T>(4);
  T* dqkv = a.out<T>(0);                                         // may be dy
  auto* partial = reinterpret_cast<float*>(a.workspace.data());  // [blocks, weights of q and k]
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < blocks; ++b) {
    float* sums = partial + b * stride;
    std::fill_n(sums, stride, 0.0F);
    for (int64_t row = b * rows / blocks; row < (b + 1) * rows / blocks; ++row) {
      for (int64_t g = 0; g < parts.count(); ++g) {
        const int64_t at = row * width + parts.start(g);
        const bool key = parts.is_key(g);
        backward_part(qkv + at, weights.of(key), weights.offset, rstd[row * parts.count() + g],
                      dy + at, parts.width(g), dqkv + at, sums + (key ? of_q : 0));
      }
      const T* dv = dy + row * width + parts.normed();
      if (dqkv != dy)
        std::copy(dv, dv + width - parts.normed(), dqkv + row * width + parts.normed());
    }
  }
  sum_blocks(a, 1, 5, partial, blocks, stride);
  sum_blocks(a, 2, 6, partial + of_q, blocks, stride);
}

}  // namespace

void qk_norm_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) { forward<decltype(zero)>(a); });
}
void qk_norm_grad_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) { backward<decltype(zero)>(a); });
}

}  // namespace snug::ops
