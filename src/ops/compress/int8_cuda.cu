// int8 storage on CUDA, with the same bits as on the CPU.
#include "kernels/cuda/map.cuh"
#include "ops/compress/int8.h"
#include "ops/compress/int8_cuda.h"
#include "ops/compress/int8_scale.h"

namespace snug::ops {
namespace {

constexpr int kThreads = 256;

// The N elements of a thread, as floats; zeros beyond the end of the array. `x` is a whole block
// away from the array's start at a time, and so aligned like it.
template <int N, typename T>
__device__ void load_part(const T* x, int64_t first, int64_t n, float (&values)[N]) {
  if (first + N <= n) return load_floats<N>(x + first, values);
#pragma unroll
  for (int i = 0; i < N; ++i) values[i] = first + i < n ? to_float(x[first + i]) : 0.0F;
}

template <int N>
__device__ void store_part(int8_t* payload, int64_t first, int64_t n, const Vector<int8_t, N>& v) {
  if (first + N <= n) return v.store(payload + first);
#pragma unroll
  for (int i = 0; i < N; ++i) {
    if (first + i < n) payload[first + i] = v.v[i];
  }
}

// Magnitudes are compared as integers, where infinity is above every number and NaN above infinity.
template <int N>
__device__ float absmax(const float (&values)[N]) {
  uint32_t largest = 0;
#pragma unroll
  for (int i = 0; i < N; ++i) largest = max(largest, __float_as_uint(values[i]) & 0x7FFFFFFF);
#pragma unroll
  for (int offset = kInt8Block / N / 2; offset > 0; offset /= 2) {
    largest = max(largest, __shfl_xor_sync(0xFFFFFFFF, largest, offset));
  }
  return __uint_as_float(largest);
}

// kInt8Block / N neighbouring lanes of a warp make one block of the storage.
template <int N, typename T>
__global__ void __launch_bounds__(kThreads)
    quantize_kernel(const T* x, int8_t* payload, float* scales, int64_t n) {
  static_assert(kInt8Block / N <= 32 && 32 % (kInt8Block / N) == 0);
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * N;
  float values[N];
  load_part<N>(x, first, n, values);
  const Int8Scale scale = Int8Scale::of(absmax<N>(values));
  Vector<int8_t, N> codes;
#pragma unroll
  for (int i = 0; i < N; ++i) {
    const int code = __float2int_rn(values[i] * scale.inverse);
    codes.v[i] = static_cast<int8_t>(scale.inverse == 0 ? 0 : code);
  }
  store_part<N>(payload, first, n, codes);
  if (first % kInt8Block == 0 && first < n) scales[first / kInt8Block] = scale.scale;
}

template <typename T>
struct Dequantize {
  const int8_t* payload;
  const float* scales;
  T* x;

  template <int N>
  struct Loaded {
    Vector<int8_t, N> codes;
    float scale;
  };
  template <int N>
  __device__ Loaded<N> load(int64_t i) const {
    return {Vector<int8_t, N>::load(payload + i), scales[i / kInt8Block]};
  }
  template <int N>
  __device__ void store(int64_t i, const Loaded<N>& in) const {
    Vector<T, N> out;
#pragma unroll
    for (int j = 0; j < N; ++j) {
      out.v[j] = from_float<T>(static_cast<float>(in.codes.v[j]) * in.scale);
    }
    out.store(x + i);
  }
};

}  // namespace

void quantize_int8_cuda(const KernelArgs& a) {
  const int64_t n = a.in(0).elements();
  if (n == 0) return;
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWidth = 16 / sizeof(T);
    const auto blocks = static_cast<unsigned>(ceil_div(n, kThreads * kWidth));
    quantize_kernel<kWidth>
        <<<blocks, kThreads, 0, stream_of(a)>>>(a.in<T>(0), a.out<int8_t>(0), a.out<float>(1), n);
  });
  check_launch("quantize_int8");
}

void dequantize_int8_cuda(const KernelArgs& a) {
  visit_device_float(a.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const Dequantize<T> body{a.in<int8_t>(0), a.in<float>(1), a.out<T>(0)};
    map_elements<16 / sizeof(T)>(body, a.out(0).elements(), aligned(body.payload, body.x),
                                 stream_of(a));
  });
}

}  // namespace snug::ops
