#include "base/vec_math.h"
#include "ops/activation/activation_cpu.h"

namespace snug::ops {

void swiglu_cpu(const KernelArgs& a) {
  const int64_t rows = a.out(0).shape().rows();
  const int64_t F = a.out(0).shape().back();
  const float* gate_up = a.in<float>(0);  // [rows, 2F]
  float* y = a.out<float>(0);             // [rows, F]
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const float* gate = gate_up + r * 2 * F;
    const float* up = gate + F;
    float* yr = y + r * F;
#pragma omp simd
    for (int64_t c = 0; c < F; ++c) yr[c] = gate[c] * fast_sigmoid(gate[c]) * up[c];
  }
}

void swiglu_grad_cpu(const KernelArgs& a) {
  const int64_t rows = a.in(1).shape().rows();
  const int64_t F = a.in(1).shape().back();
  const float* gate_up = a.in<float>(0);  // [rows, 2F]
  const float* dy = a.in<float>(1);       // [rows, F]
  float* dgate_up = a.out<float>(0);      // [rows, 2F], may be gate_up
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const float* gate = gate_up + r * 2 * F;
    const float* up = gate + F;
    const float* dyr = dy + r * F;
    float* dgate = dgate_up + r * 2 * F;
    float* dup = dgate + F;
#pragma omp simd
    for (int64_t c = 0; c < F; ++c) {
      const float g = gate[c];
      const float u = up[c];
      const float d = dyr[c];
      const float s = fast_sigmoid(g);
      dgate[c] = d * u * s * (1 + g * (1 - s));
      dup[c] = d * g * s;
    }
  }
}

}  // namespace snug::ops
