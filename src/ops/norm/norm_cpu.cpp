#include "ops/norm/norm_cpu.h"

#include <algorithm>
#include <cmath>

#include "base/units.h"
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

// Row r of what is normalised: x, or h = x + delta, which is written on the way and may lie in
// either.
template <bool kResidual>
const float* normed_row(const KernelArgs& a, int64_t r, int64_t C) {
  using P = NormPorts<kResidual>;
  const float* x = a.in<float>(P::x) + r * C;
  if constexpr (kResidual) {
    const float* delta = a.in<float>(P::delta) + r * C;
    float* h = a.out<float>(P::h) + r * C;
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) h[c] = x[c] + delta[c];
    return h;
  }
  return x;
}

// kCentered: layer_norm, which subtracts the row's mean and adds a bias; rms_norm takes it as 0.
template <bool kCentered, bool kResidual>
void norm(const KernelArgs& a) {
  using P = NormPorts<kResidual>;
  const int64_t C = a.in(P::x).shape().back();
  const int64_t rows = a.in(P::x).shape().rows();
  const float* weight = a.in<float>(P::weight);                          // [C]
  const float* bias = kCentered ? a.in<float>(P::weight + 1) : nullptr;  // [C]
  float* y = a.out<float>(P::y);                                         // [rows, C], may be x
  float* mean = kCentered ? a.out<float>(P::y + 1) : nullptr;            // [rows]
  float* rstd = a.out<float>(P::y + (kCentered ? 2 : 1));                // [rows]
  const auto eps = static_cast<float>(a.attrs.f("eps"));
  const float per_C = 1 / static_cast<float>(C);
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = normed_row<kResidual>(a, r, C);
    float* yr = y + r * C;
    float m = 0;
    if constexpr (kCentered) mean[r] = m = row_sum(C, [x](int64_t c) { return x[c]; }) * per_C;
    const float variance =
        row_sum(C, [x, m](int64_t c) { return (x[c] - m) * (x[c] - m); }) * per_C;
    const float s = rstd[r] = 1 / std::sqrt(variance + eps);
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) {
      const float scaled = (x[c] - m) * s * weight[c];
      yr[c] = kCentered ? scaled + bias[c] : scaled;
    }
  }
}

// --- backward ------------------------------------------------------------------------------------

template <bool kCentered>
struct GradPorts {
  static constexpr size_t x = 0, weight = 1, mean = 2, rstd = kCentered ? 3 : 2;
  static constexpr size_t dy = rstd + 1, dx_sum = rstd + 2, dweight_sum = rstd + 3,
                          dbias_sum = rstd + 4;
  static constexpr int64_t params = kCentered ? 2 : 1;
};

// One row, with n = (x - mean) * rstd: adds dy * n to dweight and dy to dbias, and makes
// dx = rstd * (dy * weight - mean(dy * weight) - n * mean(dy * weight * n)) + dx_sum.
template <bool kCentered>
void norm_grad_row(const KernelArgs& a, int64_t r, int64_t C, float* dweight, float* dbias) {
  using P = GradPorts<kCentered>;
  const float* x = a.in<float>(P::x) + r * C;
  const float* weight = a.in<float>(P::weight);
  const float* dy = a.in<float>(P::dy) + r * C;
  const float m = kCentered ? a.in<float>(P::mean)[r] : 0;
  const float s = a.in<float>(P::rstd)[r];
  float* dx = a.out<float>(0) + r * C;  // may be dy or dx_sum
  float dot = 0;
  float sum = 0;
#pragma omp simd reduction(+ : dot, sum)
  for (int64_t c = 0; c < C; ++c) {
    const float n = (x[c] - m) * s;
    dot += dy[c] * weight[c] * n;
    dweight[c] += dy[c] * n;
    if constexpr (kCentered) {
      sum += dy[c] * weight[c];
      dbias[c] += dy[c];
    }
  }
  const float mean_dot = dot / static_cast<float>(C);
  const float mean_sum = sum / static_cast<float>(C);
  const auto dx_at = [=](int64_t c) {
    return s * (dy[c] * weight[c] - mean_sum - (x[c] - m) * s * mean_dot);
  };
  if (a.has(P::dx_sum)) {
    const float* dx_sum = a.in<float>(P::dx_sum) + r * C;
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) dx[c] = dx_sum[c] + dx_at(c);
  } else {
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) dx[c] = dx_at(c);
  }
}

// out[c] = start[c] + partial[0, c] + partial[1, c] + ...; start may be absent, or be out.
void sum_blocks(const float* partial, int64_t blocks, int64_t stride, int64_t C, const float* start,
                float* out) {
#pragma omp parallel for simd schedule(static)
  for (int64_t c = 0; c < C; ++c) {
    float sum = start != nullptr ? start[c] : 0;
    for (int64_t b = 0; b < blocks; ++b) sum += partial[b * stride + c];
    out[c] = sum;
  }
}

template <bool kCentered>
void norm_grad(const KernelArgs& a) {
  using P = GradPorts<kCentered>;
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
      norm_grad_row<kCentered>(a, r, C, sums, sums + C);
    }
  }
  sum_blocks(partial, blocks, stride, C, a.in<float>(P::dweight_sum), a.out<float>(1));
  if constexpr (kCentered) {
    sum_blocks(partial + C, blocks, stride, C, a.in<float>(P::dbias_sum), a.out<float>(2));
  }
}

}  // namespace

void rms_norm_cpu(const KernelArgs& a) { norm<false, false>(a); }
void residual_rms_norm_cpu(const KernelArgs& a) { norm<false, true>(a); }
void rms_norm_grad_cpu(const KernelArgs& a) { norm_grad<false>(a); }
void layer_norm_cpu(const KernelArgs& a) { norm<true, false>(a); }
void residual_layer_norm_cpu(const KernelArgs& a) { norm<true, true>(a); }
void layer_norm_grad_cpu(const KernelArgs& a) { norm_grad<true>(a); }

int64_t norm_grad_workspace(const Shape& x, int64_t params) {
  return checked_mul(row_blocks(x.rows()) * params, x.back() * size_of(Dtype::f32),
                     "a norm's scratch");
}

}  // namespace snug::ops
