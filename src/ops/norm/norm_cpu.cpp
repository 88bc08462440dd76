#include "ops/norm/norm_cpu.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
#include "kernels/cpu/sum_blocks.h"
#include "kernels/float_kernels.h"
#include "ops/norm/norm_parts.h"

namespace snug::ops {
namespace {

// Parameter gradients are summed over this many blocks of rows, then over the blocks in order: a
// fixed number, so that neither the sum nor the scratch depends on how many threads there are.
constexpr int64_t kRowBlocks = 64;
int64_t row_blocks(int64_t rows) { return std::min(rows, kRowBlocks); }

template <typename Term>
float row_sum(int64_t C, Term term) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t c = 0; c < C; ++c) sum += term(c);
  return sum;
}

// Row r of what is normalised: x, or h = x + delta, which is written on the way, may alias either,
// and is read back as it was stored: the plain norm of h gives the same bits.
template <typename T, bool kResidual>
const T* normed_row(const KernelArgs& a, int64_t r, int64_t C) {
  using P = NormPorts<kResidual>;
  const T* x = a.in<T>(P::x) + r * C;
  if constexpr (kResidual) {
    const T* delta = a.in<T>(P::delta) + r * C;
    T* h = a.out<T>(P::h) + r * C;
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) store(h[c], x[c] + delta[c]);
    return h;
  }
  return x;
}

// An element's norm. The one expression that forward and a backward that recomputes y share: their
// bits must agree.
template <bool kCentered>
float normed(float x, float mean, float rstd, float weight, float bias) {
  const float scaled = (x - mean) * rstd * weight;
  return kCentered ? scaled + bias : scaled;
}

// What is added to the weights.
float offset_of(const KernelArgs& a) { return static_cast<float>(a.attrs.f("offset", 0)); }

// kCentered: layer_norm, which subtracts the row's mean and adds a bias; rms_norm takes it as 0.
template <typename T, bool kCentered, bool kResidual>
void norm(const KernelArgs& a) {
  using P = NormPorts<kResidual>;
  const int64_t C = a.in(P::x).shape().back();
  const int64_t rows = a.in(P::x).shape().rows();
  const T* weight = a.in<T>(P::weight);                          // [C]
  const T* bias = kCentered ? a.in<T>(P::weight + 1) : nullptr;  // [C]
  T* y = a.out<T>(P::y);                                         // [rows, C], may be x
  float* mean = kCentered ? a.out<float>(P::y + 1) : nullptr;    // [rows]
  float* rstd = a.out<float>(P::y + (kCentered ? 2 : 1));        // [rows]
  const auto eps = static_cast<float>(a.attrs.f("eps"));
  const float offset = offset_of(a);
  const float per_C = 1 / static_cast<float>(C);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const T* x = normed_row<T, kResidual>(a, r, C);
    T* yr = y + r * C;
    float m = 0;
    if constexpr (kCentered) mean[r] = m = row_sum(C, [x](int64_t c) { return x[c]; }) * per_C;
    const float variance =
        row_sum(C, [x, m](int64_t c) { return (x[c] - m) * (x[c] - m); }) * per_C;
    const float s = rstd[r] = 1 / std::sqrt(variance + eps);
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) {
      store(yr[c],
            normed<kCentered>(x[c], m, s, weight[c] + offset, kCentered ? float(bias[c]) : 0));
    }
  }
}

// --- backward ------------------------------------------------------------------------------------

// One row, with n = (x - mean) * rstd: adds dy * n to dweight and dy to dbias, and makes
// dx = rstd * (dy * weight - mean(dy * weight) - n * mean(dy * weight * n)) + dx_sum.
// kRecomputes: and y once more, which may alias x, dy or dx_sum, where dx does not.
template <typename T, bool kCentered, bool kRecomputes>
void norm_grad_row(const KernelArgs& a, int64_t r, int64_t C, float* dweight, float* dbias) {
  using P = NormGradPorts<kCentered>;
  const T* x = a.in<T>(P::x) + r * C;
  const T* weight = a.in<T>(P::weight);
  const T* dy = a.in<T>(P::dy) + r * C;
  const float m = kCentered ? a.in<float>(P::mean)[r] : 0;
  const float s = a.in<float>(P::rstd)[r];
  const float offset = offset_of(a);
  T* dx = a.out<T>(0) + r * C;  // may be dy or dx_sum
  float dot = 0;
  float sum = 0;
#pragma omp simd reduction(+ : dot, sum)
  for (int64_t c = 0; c < C; ++c) {
    const float n = (x[c] - m) * s;
    dot += dy[c] * (weight[c] + offset) * n;
    dweight[c] += dy[c] * n;
    if constexpr (kCentered) {
      sum += dy[c] * (weight[c] + offset);
      dbias[c] += dy[c];
    }
  }
  const float mean_dot = dot / static_cast<float>(C);
  const float mean_sum = sum / static_cast<float>(C);
  const T* bias = kCentered && kRecomputes ? a.in<T>(P::bias) : nullptr;
  T* y = kRecomputes ? a.out<T>(P::y) + r * C : nullptr;
  const auto finish = [=](int64_t c, float start) {
    const float xc = x[c];
    const float n = (xc - m) * s;
    const float w = weight[c] + offset;
    store(dx[c], start + s * (dy[c] * w - mean_sum - n * mean_dot));
    if constexpr (kRecomputes) {
      store(y[c], normed<kCentered>(xc, m, s, w, kCentered ? float(bias[c]) : 0));
    }
  };
  if (a.has(P::dx_sum)) {
    const T* dx_sum = a.in<T>(P::dx_sum) + r * C;
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) finish(c, dx_sum[c]);
  } else {
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) finish(c, 0);
  }
}

template <typename T, bool kCentered, bool kRecomputes>
void norm_grad(const KernelArgs& a) {
  using P = NormGradPorts<kCentered>;
  const int64_t C = a.in(P::x).shape().back();
  const int64_t rows = a.in(P::x).shape().rows();
  const int64_t blocks = row_blocks(rows);
  const int64_t stride = P::params * C;
  auto* partial = reinterpret_cast<float*>(a.workspace.data());  // [blocks, params, C]
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < blocks; ++b) {
    float* sums = partial + b * stride;
    std::fill_n(sums, stride, 0.0F);
    for (int64_t r = b * rows / blocks; r < (b + 1) * rows / blocks; ++r) {
      norm_grad_row<T, kCentered, kRecomputes>(a, r, C, sums, sums + C);
    }
  }
  sum_blocks(a, 1, P::dweight_sum, partial, blocks, stride);
  if constexpr (kCentered) sum_blocks(a, 2, P::dbias_sum, partial + C, blocks, stride);
}

// --- in the type of x ----------------------------------------------------------------------------

template <bool kCentered, bool kResidual>
void norm(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype,
              [&](auto zero) { norm<decltype(zero), kCentered, kResidual>(a); });
}

template <bool kCentered, bool kRecomputes = false>
void norm_grad(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype,
              [&](auto zero) { norm_grad<decltype(zero), kCentered, kRecomputes>(a); });
}

}  // namespace

void rms_norm_cpu(const KernelArgs& a) { norm<false, false>(a); }
void residual_rms_norm_cpu(const KernelArgs& a) { norm<false, true>(a); }
void rms_norm_grad_cpu(const KernelArgs& a) { norm_grad<false>(a); }
void rms_norm_recompute_grad_cpu(const KernelArgs& a) { norm_grad<false, true>(a); }
void layer_norm_cpu(const KernelArgs& a) { norm<true, false>(a); }
void residual_layer_norm_cpu(const KernelArgs& a) { norm<true, true>(a); }
void layer_norm_grad_cpu(const KernelArgs& a) { norm_grad<true>(a); }
void layer_norm_recompute_grad_cpu(const KernelArgs& a) { norm_grad<true, true>(a); }

int64_t norm_grad_workspace(const Shape& x, int64_t params) {
  return checked_mul(row_blocks(x.rows()) * params, x.back() * size_of(Dtype::f32),
                     "a norm's scratch");
}

}  // namespace snug::ops
