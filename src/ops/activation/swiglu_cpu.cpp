#include "kernels/float_kernels.h"
#include "ops/activation/activation_cpu.h"
#include "ops/activation/activation_math_cpu.h"

namespace snug::ops {
namespace {

// gate -> gate P(gate): P, and d times the derivative of the whole.
struct Silu {
  float p;
  explicit Silu(float g) : p(fast_sigmoid(g)) {}
  float dgate(float d, float g) const { return d * p * (1 + g * (1 - p)); }
};
struct Gelu {
  float p, slope;
  explicit Gelu(float g) : p(TanhForm::gate(g).value), slope(TanhForm::gate(g).slope) {}
  float dgate(float d, float g) const { return d * (p + g * slope); }
};

template <typename Form, typename T>
void forward(const KernelArgs& a) {
  const int64_t rows = a.out(0).shape().rows();
  const int64_t F = a.out(0).shape().back();
  const T* gate_up = a.in<T>(0);  // [rows, 2F]
  T* y = a.out<T>(0);             // [rows, F]
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const T* gate = gate_up + r * 2 * F;
    const T* up = gate + F;
    T* yr = y + r * F;
#pragma omp simd
    for (int64_t c = 0; c < F; ++c) store(yr[c], gate[c] * Form(gate[c]).p * up[c]);
  }
}

// kRecomputes: y is recomputed on the way; it may alias dy.
template <typename Form, typename T, bool kRecomputes>
void backward(const KernelArgs& a) {
  const int64_t rows = a.in(1).shape().rows();
  const int64_t F = a.in(1).shape().back();
  const T* gate_up = a.in<T>(0);  // [rows, 2F]
  const T* dy = a.in<T>(1);       // [rows, F]
  T* dgate_up = a.out<T>(0);      // [rows, 2F], may be gate_up
  T* y = kRecomputes ? a.out<T>(1) : nullptr;
#pragma omp parallel for schedule(static)
  for (int64_t r = 0; r < rows; ++r) {
    const T* gate = gate_up + r * 2 * F;
    const T* up = gate + F;
    const T* dyr = dy + r * F;
    T* dgate = dgate_up + r * 2 * F;
    T* dup = dgate + F;
    T* yr = kRecomputes ? y + r * F : nullptr;
#pragma omp simd
    for (int64_t c = 0; c < F; ++c) {
      const float g = gate[c];
      const float u = up[c];
      const float d = dyr[c];
      const Form form(g);
      store(dgate[c], form.dgate(d * u, g));
      store(dup[c], d * g * form.p);
      if constexpr (kRecomputes) store(yr[c], g * form.p * u);
    }
  }
}

}  // namespace

void swiglu_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    a.attrs.b("gelu", false) ? forward<Gelu, T>(a) : forward<Silu, T>(a);
  });
}
void swiglu_grad_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    a.attrs.b("gelu", false) ? backward<Gelu, T, false>(a) : backward<Silu, T, false>(a);
  });
}
void swiglu_recompute_grad_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    a.attrs.b("gelu", false) ? backward<Gelu, T, true>(a) : backward<Silu, T, true>(a);
  });
}

}  // namespace snug::ops
