#include "kernels/cuda/rows.cuh"
#include "ops/activation/activation_cuda.h"

namespace snug::ops {
namespace {

constexpr int kThreads = 256;

// to = from, where `sign` is above 0, else 0. May alias either: a thread reads its elements before
// it writes them.
template <typename T, typename V, int kPerThread>
__global__ void __launch_bounds__(kThreads)
    where_positive(const T* sign, const T* from, T* to, int64_t vectors) {
  const int64_t first = int64_t{blockIdx.x} * kThreads * kPerThread + threadIdx.x;
  V signs[kPerThread], values[kPerThread];
  for_tile_vectors<V, kPerThread>(first, vectors, [&](int k, int64_t at) {
    signs[k] = V::load_once(sign + at);
    values[k] = V::load_once(from + at);
  });
  for_tile_vectors<V, kPerThread>(first, vectors, [&](int k, int64_t at) {
    V out;
#pragma unroll
    for (int i = 0; i < V::kSize; ++i) out.set(i, signs[k][i] > 0 ? values[k][i] : 0.0F);
    out.store(to + at);
  });
}

void launch(const KernelArgs& a, size_t from) {
  constexpr int kPerThread = 2;
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    for_spans<T>(a.in(0).elements(), [&](auto access, int64_t at, int64_t vectors) {
      const auto blocks = static_cast<unsigned>(ceil_div(vectors, kThreads * kPerThread));
      where_positive<T, decltype(access), kPerThread><<<blocks, kThreads, 0, stream_of(a)>>>(
          a.in<T>(0) + at, a.in<T>(from) + at, a.out<T>(0) + at, vectors);
    });
  });
}

}  // namespace

void relu_cuda(const KernelArgs& a) {
  launch(a, 0);
  check_launch("relu");
}
void relu_grad_cuda(const KernelArgs& a) {
  launch(a, 1);
  check_launch("relu_grad");
}

}  // namespace snug::ops
