// What CUDA kernels share: the types on the device, 16-byte accesses, sums over a block, and the
// launch with its error. A kernel only enqueues on the stream it is given.
//
//   template <typename T>
//   __global__ void scale(const T* x, T* y, int64_t n) {
//     for_vectors<T>(n, [&](int64_t i, auto vector) { ... });
//   }
//   void scale_cuda(const KernelArgs& a) {
//     visit_device_float(a.in(0).type->dtype, [&](auto zero) {
//       using T = decltype(zero);
//       scale<T><<<blocks_for(n, 256), 256, 0, stream_of(a)>>>(a.in<T>(0), a.out<T>(0), n);
//     });
//     check_launch("scale");
//   }
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cstdint>

#include "base/units.h"
#include "hal/cuda/cuda_error.h"
#include "ir/op_def.h"
#include "kernels/cuda/device.h"

namespace snug::ops {

inline cudaStream_t stream_of(const KernelArgs& a) { return static_cast<cudaStream_t>(a.stream); }

// A launch that was refused. What goes wrong later, on the device, the executor finds.
inline void check_launch(const char* kernel) {
  cuda::check(cudaGetLastError(), "launching {}", kernel);
}

// fn(T{}) with the device's type for `dtype`.
template <typename Fn>
decltype(auto) visit_device_float(Dtype dtype, Fn&& fn) {
  if (dtype == Dtype::bf16) return fn(__nv_bfloat16{});
  if (dtype == Dtype::f16) return fn(__half{});
  if (dtype == Dtype::f32) return fn(float{});
  throw internal_error("{} is not a type that models compute in", name_of(dtype));
}

__device__ inline float to_float(float x) { return x; }
__device__ inline float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
__device__ inline float to_float(__half x) { return __half2float(x); }

// To nearest, ties to even.
template <typename T>
__device__ T from_float(float x);
template <>
__device__ inline float from_float<float>(float x) {
  return x;
}
template <>
__device__ inline __nv_bfloat16 from_float<__nv_bfloat16>(float x) {
  return __float2bfloat16_rn(x);
}
template <>
__device__ inline __half from_float<__half>(float x) {
  return __float2half_rn(x);
}

// --- several elements in one access -------------------------------------------------------------

template <int kBytes>
struct RawBytes;
template <>
struct RawBytes<1> {
  using Type = uint8_t;
};
template <>
struct RawBytes<2> {
  using Type = uint16_t;
};
template <>
struct RawBytes<4> {
  using Type = uint32_t;
};
template <>
struct RawBytes<8> {
  using Type = uint2;
};
template <>
struct RawBytes<16> {
  using Type = uint4;
};

// N elements, 16 bytes of them where nothing else is said. The address is a multiple of their size.
template <typename T, int N = 16 / sizeof(T)>
struct alignas(sizeof(T) * N) Vector {
  using Raw = typename RawBytes<sizeof(T) * N>::Type;
  static constexpr int kSize = N;
  T v[N];

  __device__ static Vector load(const T* from) {
    const Raw raw = *reinterpret_cast<const Raw*>(from);
    return *reinterpret_cast<const Vector*>(&raw);
  }
  // For what nothing reads again soon: it leaves the caches to others.
  __device__ static Vector load_once(const T* from) {
    const Raw raw = __ldcs(reinterpret_cast<const Raw*>(from));
    return *reinterpret_cast<const Vector*>(&raw);
  }
  __device__ void store(T* to) const {
    *reinterpret_cast<Raw*>(to) = *reinterpret_cast<const Raw*>(this);
  }
  __device__ float operator[](int i) const { return to_float(v[i]); }
  __device__ void set(int i, float x) { v[i] = from_float<T>(x); }
};

// Can rows of `columns` elements be read in vectors? Arrays themselves start on 256 bytes.
template <typename T>
bool vectorises(int64_t columns) {
  return columns % Vector<T>::kSize == 0;
}

// --- sums over a block, in a fixed order --------------------------------------------------------

template <typename T>
__device__ T warp_sum(T x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2) x += __shfl_xor_sync(0xFFFFFFFF, x, offset);
  return x;
}

__device__ inline float warp_max(float x) {
#pragma unroll
  for (int offset = 16; offset > 0; offset /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xFFFFFFFF, x, offset));
  return x;
}

// Every thread of the block gets the sum. kThreads: the block's size, a multiple of 32.
template <int kThreads, typename T>
__device__ T block_sum(T x) {
  constexpr int kWarps = kThreads / 32;
  x = warp_sum(x);
  if constexpr (kWarps == 1) return x;
  __shared__ T partial[kWarps];
  __syncthreads();  // the last call's readers are done
  if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
  __syncthreads();
  T sum = partial[0];
#pragma unroll
  for (int w = 1; w < kWarps; ++w) sum += partial[w];
  return sum;
}

// --- the shape of a launch ----------------------------------------------------------------------

// Threads that a multiprocessor holds at once, of the architecture that is compiled for: the chips of
// data centres hold more. A kernel that asks for more blocks than fit is refused by the assembler.
// Code for 8.0 may be compiled again for 8.6, 8.9 or 12.0, which hold 1,536, when it is loaded: it
// counts on no more, though an A100 holds 2,048.
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1100
constexpr int kResidentThreads = 2048;
#else
constexpr int kResidentThreads = 1536;
#endif

// `wanted` blocks of `threads` on a multiprocessor, or as many as it holds.
constexpr int blocks_at_once(int threads, int wanted) {
  return wanted * threads <= kResidentThreads ? wanted : kResidentThreads / threads;
}

// This block's place in a row of `blocks`, counted from the end: rows are then taken from the last
// to the first. What the GEMM before wrote last is still in the cache, and what the next
// GEMM reads first will be.
__device__ inline unsigned from_end(unsigned block, unsigned blocks) { return blocks - 1 - block; }

// Blocks for a grid-stride loop over n items: enough to fill the device `waves` times, no more.
inline unsigned blocks_for(int64_t n, int64_t per_block, int64_t waves = 16) {
  return static_cast<unsigned>(
      std::clamp<int64_t>(ceil_div(n, per_block), 1, waves * multiprocessors()));
}

}  // namespace snug::ops
