#include "ops/norm/rms_norm_cpu.h"

#include <cmath>

#include "base/units.h"

namespace snug::ops {

void rms_norm_cpu(const KernelArgs& a) {
  const int64_t C = a.in(0).shape().back();
  const int64_t rows = a.in(0).shape().rows();
  const float* x = a.in<float>(0);            // [rows, C]
  const float* weight = a.in<float>(1);       // [C]
  float* y = a.out<float>(0);                 // [rows, C], may be x
  float* rstd = a.out<float>(1);              // [rows]
  const auto eps = static_cast<float>(a.attrs.f("eps"));
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const float* xr = x + r * C;
    float* yr = y + r * C;
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t c = 0; c < C; ++c) sum += xr[c] * xr[c];
    const float s = 1 / std::sqrt(sum / static_cast<float>(C) + eps);
#pragma omp simd
    for (int64_t c = 0; c < C; ++c) yr[c] = xr[c] * s * weight[c];
    rstd[r] = s;
  }
}

void rms_norm_grad_cpu(const KernelArgs& a) {
  const int64_t C = a.in(0).shape().back();
  const int64_t rows = a.in(0).shape().rows();
  const float* x = a.in<float>(0);       // [rows, C]
  const float* weight = a.in<float>(1);  // [C]
  const float* rstd = a.in<float>(2);    // [rows]
  const float* dy = a.in<float>(3);      // [rows, C]
  const float* dx_sum = a.in<float>(4);  // [rows, C] or absent
  const float* dw_sum = a.in<float>(5);  // [C] or absent
  float* dx = a.out<float>(0);           // [rows, C], may be dy or dx_sum
  float* dw = a.out<float>(1);           // [C], may be dw_sum
  auto* partial = reinterpret_cast<float*>(a.workspace.data());  // [kWeightGradBlocks, C]
  const int64_t block = ceil_div(rows, kWeightGradBlocks);
#pragma omp parallel for schedule(static)
  for (int64_t b = 0; b < kWeightGradBlocks; ++b) {
    float* pw = partial + b * C;
    for (int64_t c = 0; c < C; ++c) pw[c] = 0;
    for (int64_t r = b * block; r < std::min(rows, (b + 1) * block); ++r) {
      const float* xr = x + r * C;
      const float* dyr = dy + r * C;
      const float s = rstd[r];
      float dot = 0;
#pragma omp simd reduction(+ : dot)
      for (int64_t c = 0; c < C; ++c) {
        dot += dyr[c] * weight[c] * xr[c];
        pw[c] += dyr[c] * xr[c] * s;
      }
      const float mean = dot * s * s / static_cast<float>(C);
      if (dx_sum != nullptr) {
#pragma omp simd
        for (int64_t c = 0; c < C; ++c) dx[r * C + c] = dx_sum[r * C + c] + s * (dyr[c] * weight[c] - xr[c] * mean);
      } else {
#pragma omp simd
        for (int64_t c = 0; c < C; ++c) dx[r * C + c] = s * (dyr[c] * weight[c] - xr[c] * mean);
      }
    }
  }
#pragma omp parallel for simd schedule(static)
  for (int64_t c = 0; c < C; ++c) {
    float sum = dw_sum != nullptr ? dw_sum[c] : 0;
    for (int64_t b = 0; b < kWeightGradBlocks; ++b) sum += partial[b * C + c];
    dw[c] = sum;
  }
}

}  // namespace snug::ops
