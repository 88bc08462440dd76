#include "kernels/cuda/gemm_plain.h"
#include "kernels/cuda/kernel.cuh"

namespace snug::ops {
namespace {

constexpr int kTile = 16;

// Types are looked at where they are loaded: the instances would be dozens, and none is fast.
__device__ float load(const void* array, Dtype dtype, int64_t i) {
  if (dtype == Dtype::bf16) return to_float(static_cast<const __nv_bfloat16*>(array)[i]);
  if (dtype == Dtype::f16) return to_float(static_cast<const __half*>(array)[i]);
  return static_cast<const float*>(array)[i];
}

__device__ void store(void* array, Dtype dtype, int64_t i, float x) {
  if (dtype == Dtype::bf16)
    static_cast<__nv_bfloat16*>(array)[i] = from_float<__nv_bfloat16>(x);
  else if (dtype == Dtype::f16)
    static_cast<__half*>(array)[i] = from_float<__half>(x);
  else
    static_cast<float*>(array)[i] = x;
}

// One block makes one tile of c, one thread one element: c may be `sum`, each is read before it is
// written and by the same thread.
__global__ void __launch_bounds__(kTile* kTile) multiply(const CudaGemm p, int64_t tiles_n) {
  __shared__ float a[kTile][kTile + 1], b[kTile][kTile + 1];  // padded: both are read across
  const int x = threadIdx.x, y = threadIdx.y;
  const int64_t row0 = blockIdx.x / tiles_n * kTile, column0 = blockIdx.x % tiles_n * kTile;
  const int64_t row = row0 + y, column = column0 + x;

  float sum = 0;
  for (int64_t k0 = 0; k0 < p.k; k0 += kTile) {
    const bool in_a = row < p.m && k0 + x < p.k, in_b = k0 + y < p.k && column < p.n;
    const int64_t at_a =
        p.transpose_a ? (k0 + x) * p.stride_of_a() + row : row * p.stride_of_a() + k0 + x;
    const int64_t at_b =
        p.transpose_b ? column * p.stride_of_b() + k0 + y : (k0 + y) * p.stride_of_b() + column;
    a[y][x] = in_a ? load(p.a, p.a_dtype, at_a) : 0;
    b[y][x] = in_b ? load(p.b, p.b_dtype, at_b) : 0;
    __syncthreads();
#pragma unroll
    for (int k = 0; k < kTile; ++k) sum = fmaf(a[y][k], b[k][x], sum);
    __syncthreads();
  }

  if (row >= p.m || column >= p.n) return;
  const int64_t at = row * p.stride_of_c() + column;
  sum *= p.alpha;
  if (p.bias != nullptr) sum += load(p.bias, p.c_dtype, column);
  if (p.sum != nullptr) sum += load(p.sum, p.c_dtype, at);
  store(p.c, p.c_dtype, at, sum);
}

}  // namespace

void plain_gemm(const CudaGemm& p, void* stream) {
  const int64_t tiles_m = ceil_div(p.m, kTile), tiles_n = ceil_div(p.n, kTile);
  multiply<<<static_cast<unsigned>(tiles_m * tiles_n), dim3(kTile, kTile), 0,
             static_cast<cudaStream_t>(stream)>>>(p, tiles_n);
  check_launch("plain_gemm");
}

}  // namespace snug::ops
