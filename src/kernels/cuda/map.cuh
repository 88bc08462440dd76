// Work on every element of an array, a vector of up to 16 bytes at a time, with several loads of a
// thread in flight before the first is used.
//
//   template <typename T>
//   struct Twice {
//     const T* x;
//     T* y;   // may be x
//     template <int N>
//     __device__ Vector<T, N> load(int64_t i) const { return Vector<T, N>::load(x + i); }
//     template <int N>
//     __device__ void store(int64_t i, Vector<T, N> v) const { ... v.store(y + i); }
//   };
//   map_elements<16 / sizeof(T)>(Twice<T>{x, y}, n, aligned(x, y), stream);
#pragma once

#include "kernels/cuda/kernel.cuh"

namespace snug::ops {

// N elements as floats, in as many accesses of up to 16 bytes as they take.
template <int N, typename T>
struct FloatAccess {
  static constexpr int kWidth = N * sizeof(T) <= 16 ? N : 16 / sizeof(T);
  static_assert(N % kWidth == 0);
};

template <int N, typename T>
__device__ void load_floats(const T* from, float (&to)[N]) {
  constexpr int kWidth = FloatAccess<N, T>::kWidth;
#pragma unroll
  for (int at = 0; at < N; at += kWidth) {
    const auto piece = Vector<T, kWidth>::load(from + at);
#pragma unroll
    for (int i = 0; i < kWidth; ++i) to[at + i] = to_float(piece.v[i]);
  }
}

template <int N, typename T>
__device__ void store_floats(T* to, const float (&from)[N]) {
  constexpr int kWidth = FloatAccess<N, T>::kWidth;
#pragma unroll
  for (int at = 0; at < N; at += kWidth) {
    Vector<T, kWidth> piece;
#pragma unroll
    for (int i = 0; i < kWidth; ++i) piece.v[i] = from_float<T>(from[at + i]);
    piece.store(to + at);
  }
}

// Do all arrays start on 16 bytes? Absent ones do.
template <typename... Pointers>
bool aligned(Pointers... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

constexpr int kMapThreads = 256;
constexpr int kMapLoads = 4;  // in flight per thread and operand

template <int N, typename Body>
__global__ void __launch_bounds__(kMapThreads) map_vectors(Body body, int64_t vectors) {
  const int64_t first = int64_t{blockIdx.x} * (kMapThreads * kMapLoads) + threadIdx.x;
  decltype(body.template load<N>(0)) in[kMapLoads];
#pragma unroll
  for (int u = 0; u < kMapLoads; ++u) {
    const int64_t at = first + u * kMapThreads;
    if (at < vectors) in[u] = body.template load<N>(at * N);
  }
#pragma unroll
  for (int u = 0; u < kMapLoads; ++u) {
    const int64_t at = first + u * kMapThreads;
    if (at < vectors) body.template store<N>(at * N, in[u]);
  }
}

// In vectors of N where the arrays are aligned and n is a multiple of N, else one by one.
template <int N, typename Body>
void map_elements(const Body& body, int64_t n, bool is_aligned, cudaStream_t stream) {
  if (n == 0) return;
  const auto blocks = [](int64_t vectors) {
    return static_cast<unsigned>(ceil_div(vectors, kMapThreads * kMapLoads));
  };
  if (is_aligned && n % N == 0) {
    map_vectors<N><<<blocks(n / N), kMapThreads, 0, stream>>>(body, n / N);
  } else {
    map_vectors<1><<<blocks(n), kMapThreads, 0, stream>>>(body, n);
  }
  check_launch("an elementwise kernel");
}

}  // namespace snug::ops
