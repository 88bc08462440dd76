#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"
#include "ops/activation/activation_cpu.h"
#include "ops/activation/activation_math_cpu.h"

namespace snug::ops {
namespace {

struct ExactForm {
  static Gate gate(float x) {
    const float p = 0.5F + 0.5F * fast_erf(x * 0.707106781F);
    return {p, 0.398942280F * fast_exp(-0.5F * x * x)};
  }
};

template <typename T, typename Form>
void forward(const KernelArgs& a) {
  const T* x = a.in<T>(0);
  T* y = a.out<T>(0);  // may be x
  for_blocks(a.out(0).elements(), [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) store(y[i], x[i] * Form::gate(x[i]).value);
  });
}

// kRecomputes: y is recomputed on the way; it may alias x or dy, where dx does not.
template <typename T, typename Form, bool kRecomputes>
void backward(const KernelArgs& a) {
  const T* x = a.in<T>(0);
  const T* dy = a.in<T>(1);
  T* dx = a.out<T>(0);  // may be x or dy
  T* y = kRecomputes ? a.out<T>(1) : nullptr;
  for_blocks(a.out(0).elements(), [=](int64_t begin, int64_t end) {
#pragma omp simd
    for (int64_t i = begin; i < end; ++i) {
      const float xi = x[i];
      const float d = dy[i];
      const Gate p = Form::gate(xi);
      store(dx[i], d * (p.value + xi * p.slope));
      if constexpr (kRecomputes) store(y[i], xi * p.value);
    }
  });
}

}  // namespace

void gelu_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    a.attrs.b("tanh") ? forward<T, TanhForm>(a) : forward<T, ExactForm>(a);
  });
}
void gelu_grad_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    a.attrs.b("tanh") ? backward<T, TanhForm, false>(a) : backward<T, ExactForm, false>(a);
  });
}
void gelu_recompute_grad_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    a.attrs.b("tanh") ? backward<T, TanhForm, true>(a) : backward<T, ExactForm, true>(a);
  });
}

}  // namespace snug::ops
