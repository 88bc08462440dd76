// cast and assign: the same numbers in another type.
#include <type_traits>

#include "ir/visit_dtype.h"
#include "kernels/cuda/map.cuh"
#include "ops/basic/basic_cuda.h"

namespace snug::ops {
namespace {

// The device's type for an element type of the host.
template <typename T>
struct OnDevice {
  using Type = T;
};
template <>
struct OnDevice<Bf16> {
  using Type = __nv_bfloat16;
};
template <>
struct OnDevice<F16> {
  using Type = __half;
};

// Between other types and 16-bit floats the way leads over float.
template <typename To, typename From>
__device__ To convert(From x) {
  if constexpr (std::is_arithmetic_v<To> && std::is_arithmetic_v<From>) {
    return static_cast<To>(x);
  } else if constexpr (std::is_arithmetic_v<To>) {
    return static_cast<To>(to_float(x));
  } else if constexpr (std::is_arithmetic_v<From>) {
    return from_float<To>(static_cast<float>(x));
  } else {
    return from_float<To>(to_float(x));
  }
}

template <typename To, typename From>
struct Convert {
  const From* x;
  To* y;

  template <int N>
  __device__ Vector<From, N> load(int64_t i) const {
    return Vector<From, N>::load(x + i);
  }
  template <int N>
  __device__ void store(int64_t i, const Vector<From, N>& in) const {
    Vector<To, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) out.v[j] = convert<To>(in.v[j]);
    out.store(y + i);
  }
};

// 16 bytes of the wider type at a time: both sides of a warp's access are contiguous.
template <typename To, typename From>
void run(const From* x, To* y, int64_t n, cudaStream_t stream) {
  constexpr int kWidth = 16 / std::max(sizeof(To), sizeof(From));
  map_elements<kWidth>(Convert<To, From>{x, y}, n, aligned(x, y), stream);
}

}  // namespace

void cast_cuda(const KernelArgs& a) {
  visit_dtype(a.in(0).type->dtype, [&](auto from) {
    using From = typename OnDevice<decltype(from)>::Type;
    if constexpr (sizeof(From) == 1) {
      throw internal_error("cast_cuda has no row for {}", name_of(a.in(0).type->dtype));
    } else {
      visit_dtype(a.out(0).type->dtype, [&](auto to) {
        using To = typename OnDevice<decltype(to)>::Type;
        run(a.in<From>(0), a.out<To>(0), a.out(0).elements(), stream_of(a));
      });
    }
  });
}

void assign_cuda(const KernelArgs& a) {
  visit_device_float(a.in(1).type->dtype, [&](auto from) {
    visit_device_float(a.out(0).type->dtype, [&](auto to) {
      run(a.in<decltype(from)>(1), a.out<decltype(to)>(0), a.out(0).elements(), stream_of(a));
    });
  });
}

}  // namespace snug::ops
