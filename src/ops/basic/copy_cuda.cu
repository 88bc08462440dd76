// copy, fill and is_finite.
#include <bit>

#include "base/half.h"
#include "ir/visit_dtype.h"
#include "kernels/cuda/map.cuh"
#include "ops/basic/basic_cuda.h"

namespace snug::ops {
namespace {

template <typename Bits>
struct Constant {
  Bits value;
  Bits* y;

  template <int N>
  struct Nothing {};
  template <int N>
  __device__ Nothing<N> load(int64_t) const {
    return {};
  }
  template <int N>
  __device__ void store(int64_t i, Nothing<N>) const {
    Vector<Bits, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.v[j] = value;
    out.store(y + i);
  }
};

// Elements of one size are filled by one kernel, with the bits that the host made.
template <typename T>
auto bits_of(T value) {
  if constexpr (sizeof(T) == 8) {
    return std::bit_cast<uint64_t>(value);
  } else if constexpr (sizeof(T) == 4) {
    return std::bit_cast<uint32_t>(value);
  } else {
    return std::bit_cast<uint16_t>(value);
  }
}

__global__ void is_finite_kernel(const float* x, int32_t* y) { *y = isfinite(*x) ? 1 : 0; }

}  // namespace

// Between spaces too: the pointers say in which direction.
void copy_cuda(const KernelArgs& a) {
  const int64_t bytes = a.out(0).type->bytes();
  if (bytes == 0 || a.in(0).data == a.out(0).data) return;
  cuda::check(cudaMemcpyAsync(a.out(0).data, a.in(0).data, static_cast<size_t>(bytes),
                              cudaMemcpyDefault, stream_of(a)),
              "copying {} bytes", bytes);
}

void fill_cuda(const KernelArgs& a) {
  visit_dtype(a.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == 1) {
      throw internal_error("fill_cuda has no row for {}", name_of(a.out(0).type->dtype));
    } else {
      const auto bits = bits_of(static_cast<T>(a.attrs.f("value")));
      using Bits = std::remove_const_t<decltype(bits)>;
      Bits* y = a.out<Bits>(0);
      map_elements<16 / sizeof(Bits)>(Constant<Bits>{bits, y}, a.out(0).elements(), aligned(y),
                                      stream_of(a));
    }
  });
}

void is_finite_cuda(const KernelArgs& a) {
  is_finite_kernel<<<1, 1, 0, stream_of(a)>>>(a.in<float>(0), a.out<int32_t>(0));
  check_launch("is_finite");
}

}  // namespace snug::ops
