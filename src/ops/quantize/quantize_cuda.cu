// The formats on CUDA, with the same bits as on the CPU.
#include "kernels/cuda/map.cuh"
#include "ops/quantize/format.h"
#include "ops/quantize/int8_scale.h"
#include "ops/quantize/nf4_levels.h"
#include "ops/quantize/quantize_cuda.h"

namespace snug::ops {
namespace {

constexpr int kThreads = 256;
// Of their own: device code reads no member of a table.
constexpr int64_t kInt8Block = kInt8.block, kNf4Block = kNf4.block;

// --- int8 ----------------------------------------------------------------------------------------

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
    quantize_int8_kernel(const T* x, int8_t* payload, float* scales, int64_t n) {
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
struct DequantizeInt8 {
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

// --- nf4 -----------------------------------------------------------------------------------------

// The levels as a chain of selects would be a dozen instructions a weight; a warp holds all sixteen
// in its lanes' registers, and a shuffle picks one.
__device__ float level_of(float mine, uint32_t code) {
  return __shfl_sync(0xFFFFFFFF, mine, static_cast<int>(code));
}

struct Nf4Table {
  float v[16];
};

// A thread makes the 2 * kBytes elements of its kBytes bytes, all of one block.
template <int kBytes, typename T>
__global__ void __launch_bounds__(kThreads)
    dequantize_nf4_kernel(const uint8_t* codes, const float* scales, T* x, int64_t bytes,
                          const Nf4Table table) {
  const float mine = table.v[threadIdx.x % 16];
  const int64_t first = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kBytes;
  const bool inside = first < bytes;  // all lanes take part in the shuffles
  const auto in = inside ? Vector<uint8_t, kBytes>::load(codes + first) : Vector<uint8_t, kBytes>{};
  const float scale = inside ? scales[2 * first / kNf4Block] : 0;
  Vector<T, 2 * kBytes> out;
#pragma unroll
  for (int i = 0; i < kBytes; ++i) {
    out.v[2 * i] = from_float<T>(level_of(mine, in.v[i] >> 4) * scale);
    out.v[2 * i + 1] = from_float<T>(level_of(mine, in.v[i] & 15) * scale);
  }
  if (inside) out.store(x + 2 * first);
}

}  // namespace

void quantize_int8_cuda(const KernelArgs& a) {
  const int64_t n = a.in(0).elements();
  if (n == 0) return;
  visit_device_float(a.in(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    constexpr int kWidth = 16 / sizeof(T);
    const auto blocks = static_cast<unsigned>(ceil_div(n, kThreads * kWidth));
    quantize_int8_kernel<kWidth>
        <<<blocks, kThreads, 0, stream_of(a)>>>(a.in<T>(0), a.out<int8_t>(0), a.out<float>(1), n);
  });
  check_launch("quantize_int8");
}

void dequantize_int8_cuda(const KernelArgs& a) {
  visit_device_float(a.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const DequantizeInt8<T> body{a.in<int8_t>(0), a.in<float>(1), a.out<T>(0)};
    map_elements<16 / sizeof(T)>(body, a.out(0).elements(), aligned(body.payload, body.x),
                                 stream_of(a));
  });
}

void dequantize_nf4_cuda(const KernelArgs& a) {
  const int64_t bytes = a.in(0).elements();
  if (bytes == 0) return;
  Nf4Table table{};
  for (int i = 0; i < 16; ++i) table.v[i] = kNf4Levels[static_cast<size_t>(i)];
  visit_device_float(a.out(0).type->dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto* codes = a.in<uint8_t>(0);
    T* x = a.out<T>(0);
    const auto launch = [&](auto width) {
      constexpr int kBytes = decltype(width)::value;
      const auto blocks = static_cast<unsigned>(ceil_div(bytes, kThreads * kBytes));
      dequantize_nf4_kernel<kBytes>
          <<<blocks, kThreads, 0, stream_of(a)>>>(codes, a.in<float>(1), x, bytes, table);
    };
    constexpr int kWide = 8 / sizeof(T);  // 16 bytes of x at a time
    if (bytes % kWide == 0 && aligned(codes, x)) {
      launch(std::integral_constant<int, kWide>{});
    } else {
      launch(std::integral_constant<int, 1>{});
    }
  });
  check_launch("dequantize_nf4");
}

}  // namespace snug::ops
