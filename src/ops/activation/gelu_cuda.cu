#include "kernels/cuda/rows.cuh"
#include "ops/activation/activation_cuda.h"
#include "ops/activation/activation_math.cuh"

namespace snug::ops {
namespace {

template <typename T>
struct ExactForm {
  __device__ static Gate gate(float x) {
    const float p = __fmaf_rn(0.5F, erff(__fmul_rn(x, 0.707106781F)), 0.5F);
    return {p, 0.398942280F * exponential<T>(-0.5F * x * x)};
  }
};

template <typename T>
struct Gelu {
  const T *x, *dy;
  T *dx, *y;  // may alias x and dy: a thread reads its elements before it writes them
};

constexpr int kThreads = 256;

template <typename T, typename V, typename Form, int kPerThread>
__global__ void __launch_bounds__(kThreads) forward(Gelu<T> p, int64_t vectors) {
  const int64_t first = int64_t{blockIdx.x} * kThreads * kPerThread + threadIdx.x;
  V x[kPerThread];
  for_tile_vectors<V, kPerThread>(first, vectors,
                                  [&](int k, int64_t at) { x[k] = V::load_once(p.x + at); });
  for_tile_vectors<V, kPerThread>(first, vectors, [&](int k, int64_t at) {
    V y;
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) y.set(i, __fmul_rn(x[k][i], Form::gate(x[k][i]).value));
    y.store(p.y + at);
  });
}

template <typename T, typename V, typename Form, int kPerThread, bool kRecomputes>
__global__ void __launch_bounds__(kThreads) backward(Gelu<T> p, int64_t vectors) {
  const int64_t first = int64_t{blockIdx.x} * kThreads * kPerThread + threadIdx.x;
  V x[kPerThread], dy[kPerThread];
  for_tile_vectors<V, kPerThread>(first, vectors, [&](int k, int64_t at) {
    x[k] = V::load_once(p.x + at);
    dy[k] = V::load_once(p.dy + at);
  });
  for_tile_vectors<V, kPerThread>(first, vectors, [&](int k, int64_t at) {
    V dx, y;
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) {
      const Gate gate = Form::gate(x[k][i]);
      dx.set(i, dy[k][i] * (gate.value + x[k][i] * gate.slope));
      if constexpr (kRecomputes) y.set(i, __fmul_rn(x[k][i], gate.value));
    }
    dx.store(p.dx + at);
    if constexpr (kRecomputes) y.store(p.y + at);
  });
}

// fn(Form{}) with the op's form, in the type T.
template <typename T, typename Fn>
void visit_form(const KernelArgs& a, const Fn& fn) {
  a.attrs.b("tanh") ? fn(TanhForm<T>{}) : fn(ExactForm<T>{});
}

template <int kPerThread>
unsigned blocks(int64_t vectors) {
  return static_cast<unsigned>(ceil_div(vectors, kThreads * kPerThread));
}

template <bool kRecomputes>
void grad(const KernelArgs& a) {
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    visit_form<T>(a, [&](auto form) {
      for_spans<T>(a.in(0).elements(), [&](auto access, int64_t from, int64_t vectors) {
        const Gelu<T> p{.x = a.in<T>(0) + from,
                        .dy = a.in<T>(1) + from,
                        .dx = a.out<T>(0) + from,
                        .y = kRecomputes ? a.out<T>(1) + from : nullptr};
        backward<T, decltype(access), decltype(form), 2, kRecomputes>
            <<<blocks<2>(vectors), kThreads, 0, stream_of(a)>>>(p, vectors);
      });
    });
  });
  check_launch("gelu_grad");
}

}  // namespace

void gelu_cuda(const KernelArgs& a) {
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    visit_form<T>(a, [&](auto form) {
      for_spans<T>(a.in(0).elements(), [&](auto access, int64_t from, int64_t vectors) {
        const Gelu<T> p{
            .x = a.in<T>(0) + from, .dy = nullptr, .dx = nullptr, .y = a.out<T>(0) + from};
        forward<T, decltype(access), decltype(form), 4>
            <<<blocks<4>(vectors), kThreads, 0, stream_of(a)>>>(p, vectors);
      });
    });
  });
  check_launch("gelu");
}
void gelu_grad_cuda(const KernelArgs& a) { grad<false>(a); }
void gelu_recompute_grad_cuda(const KernelArgs& a) { grad<true>(a); }

}  // namespace snug::ops
