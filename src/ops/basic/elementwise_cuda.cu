// add and multiply: two operands of one type, the result in fp32, rounded once.
#include "kernels/cuda/map.cuh"
#include "ops/basic/basic_cuda.h"

namespace snug::ops {
namespace {

struct Plus {
  __device__ static float of(float a, float b) { return a + b; }
};
struct Times {
  __device__ static float of(float a, float b) { return a * b; }
};

template <typename F, typename T>
struct TwoOperands {
  const T* a;
  const T* b;
  T* y;  // may be a or b

  template <int N>
  struct Loaded {
    Vector<T, N> a, b;
  };
  template <int N>
  __device__ Loaded<N> load(int64_t i) const {
    return {Vector<T, N>::load(a + i), Vector<T, N>::load(b + i)};
  }
  template <int N>
  __device__ void store(int64_t i, const Loaded<N>& in) const {
    Vector<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      out.v[j] = from_float<T>(F::of(to_float(in.a.v[j]), to_float(in.b.v[j])));
    }
    out.store(y + i);
  }
};

template <typename F>
void elementwise_cuda(const KernelArgs& args) {
  visit_device_float(args.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const TwoOperands<F, T> body{args.in<T>(0), args.in<T>(1), args.out<T>(0)};
    map_elements<16 / sizeof(T)>(body, args.out(0).elements(), aligned(body.a, body.b, body.y),
                                 stream_of(args));
  });
}

}  // namespace

void add_cuda(const KernelArgs& a) { elementwise_cuda<Plus>(a); }
void multiply_cuda(const KernelArgs& a) { elementwise_cuda<Times>(a); }

}  // namespace snug::ops
