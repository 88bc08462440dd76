#include "kernels/cpu/for_blocks.h"
#include "kernels/float_kernels.h"
#include "ops/activation/activation_cpu.h"

namespace snug::ops {

void relu_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* x = a.in<T>(0);
    T* y = a.out<T>(0);  // may be x
    for_blocks(a.out(0).elements(), [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) {
        const float xi = x[i];
        store(y[i], xi > 0 ? xi : 0.0F);
      }
    });
  });
}

void relu_grad_cpu(const KernelArgs& a) {
  visit_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* y = a.in<T>(0);
    const T* dy = a.in<T>(1);
    T* dx = a.out<T>(0);  // may be y or dy
    for_blocks(a.out(0).elements(), [=](int64_t begin, int64_t end) {
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) {
        const float d = dy[i];
        store(dx[i], static_cast<float>(y[i]) > 0 ? d : 0.0F);
      }
    });
  });
}

}  // namespace snug::ops
