#include "kernels/cuda/column_sum.h"

#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/rows.cuh"

namespace snug::ops {
namespace {

constexpr int kThreads = 1024;  // at most, of a block that reads rows
constexpr int kAhead = 4;       // loads in flight per thread

// Blocks that add partial sums: many threads with few loads each, all in flight at once.
constexpr int kAcross = 32;  // columns of such a block
constexpr int kLanes = 32;   // threads that share a column's partial sums
constexpr int kParts = 5;    // partial sums in flight per thread: all of a thread's up to 160

// partials[block of rows, columns]. A thread owns V::kSize columns of every blockDim.y-th row of
// its block of rows; what the blockDim.y threads of a column have is added in their order.
template <typename T, typename V>
__global__ void __launch_bounds__(kThreads, 1)
    sum_rows(const T* __restrict__ x, float* __restrict__ partials, int64_t rows, int64_t columns,
             int64_t stride) {
  after_previous();
  __shared__ alignas(16) float shared[kThreads * V::kSize];  // [blockDim.y, tile]
  const int tile = static_cast<int>(blockDim.x) * V::kSize;
  const int64_t column0 = int64_t{blockIdx.x} * tile;
  const int64_t column = column0 + threadIdx.x * V::kSize;
  const int64_t end = rows * (blockIdx.y + 1) / gridDim.y;
  int64_t row = rows * blockIdx.y / gridDim.y + threadIdx.y;

  float sum[V::kSize] = {};
  if (column < columns) {  // a whole vector: the stride is a multiple of its size
    const int64_t step = int64_t{blockDim.y} * stride;
    for (const T* from = x + row * stride + column; row < end; from += kAhead * step) {
      V read[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i, row += blockDim.y) {
        read[i] = V{};
        if (row < end) read[i] = V::load_once(from + i * step);
      }
#pragma unroll
      for (int i = 0; i < kAhead; ++i) {
#pragma unroll
        for (int j = 0; j < V::kSize; ++j) sum[j] += read[i][j];
      }
    }
  }
  float* to = shared + threadIdx.y * tile + threadIdx.x * V::kSize;
  if constexpr (V::kSize == 1) {
    *to = sum[0];
  } else {
#pragma unroll
    for (int j = 0; j < V::kSize; j += 4)
      *reinterpret_cast<float4*>(to + j) = make_float4(sum[j], sum[j + 1], sum[j + 2], sum[j + 3]);
  }
  __syncthreads();

  const int own = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x);
  if (own >= tile || column0 + own >= columns) return;
  float total = 0;
#pragma unroll 4
  for (int r = 0; r < static_cast<int>(blockDim.y); ++r) total += shared[r * tile + own];
  partials[blockIdx.y * columns + column0 + own] = total;
}

// sum = add + the blocks of each column; of sum blockIdx.y.
template <typename T>
__global__ void __launch_bounds__(kAcross* kLanes) add_partials(CudaPartialSums p) {
  after_previous();
  __shared__ float shared[kLanes][kAcross];
  const bool second = blockIdx.y == 1;
  const int64_t column = int64_t{blockIdx.x} * kAcross + threadIdx.x;
  const int64_t stride = p.sums * p.columns;
  const float* partials = p.partials + blockIdx.y * p.columns + column;
  const auto* add = static_cast<const T*>(second ? p.add2 : p.add);
  const bool ends = threadIdx.y == 0 && column < p.columns;
  float total = ends && add != nullptr ? to_float(add[column]) : 0;
  float part = 0;
  for (int64_t b = threadIdx.y; column < p.columns && b < p.blocks;) {
    float read[kParts];
#pragma unroll
    for (int i = 0; i < kParts; ++i, b += kLanes) read[i] = b < p.blocks ? partials[b * stride] : 0;
#pragma unroll
    for (int i = 0; i < kParts; ++i) part += read[i];
  }
  shared[threadIdx.y][threadIdx.x] = part;
  __syncthreads();
  if (!ends) return;
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) total += shared[lane][threadIdx.x];
  static_cast<T*>(second ? p.sum2 : p.sum)[column] = from_float<T>(total);
}

int64_t stride_of(const CudaColumnSum& p) { return p.x_stride > 0 ? p.x_stride : p.columns; }

template <typename T, typename V>
void launch_rows(const CudaColumnSum& p, int64_t blocks, cudaStream_t stream) {
  constexpr int64_t kWhole = 16;  // columns: tiles start on 32 bytes, what memory is read in
  const int64_t tiles = cuda_column_sum_tiles(p.columns);
  const int64_t tile = ceil_div(ceil_div(p.columns, tiles), kWhole) * kWhole;
  const int64_t across = tile / V::kSize;
  launch_after_previous(
      sum_rows<T, V>, dim3(static_cast<unsigned>(tiles), static_cast<unsigned>(blocks)),
      dim3(static_cast<unsigned>(across), static_cast<unsigned>(kThreads / across)), 0, stream,
      static_cast<const T*>(p.x), static_cast<float*>(p.scratch), p.rows, p.columns, stride_of(p));
}

}  // namespace

void cuda_column_sum(const CudaColumnSum& p, void* stream) {
  if (p.columns == 0) return;
  const int64_t blocks = cuda_column_sum_blocks(p.rows, p.columns);
  visit_device_float(p.x_dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool packed =
        vectorises<T>(stride_of(p)) && reinterpret_cast<uintptr_t>(p.x) % sizeof(uint4) == 0;
    if (packed)
      launch_rows<T, Vector<T>>(p, blocks, static_cast<cudaStream_t>(stream));
    else
      launch_rows<T, Single<T>>(p, blocks, static_cast<cudaStream_t>(stream));
  });
  cuda_add_partials({.partials = static_cast<const float*>(p.scratch),
                     .add = p.add,
                     .sum = p.sum,
                     .blocks = blocks,
                     .columns = p.columns,
                     .sum_dtype = p.sum_dtype},
                    stream);
}

void cuda_add_partials(const CudaPartialSums& p, void* stream) {
  if (p.columns == 0) return;
  const dim3 grid(static_cast<unsigned>(ceil_div(p.columns, kAcross)),
                  static_cast<unsigned>(p.sums));
  visit_device_float(p.sum_dtype, [&](auto zero) {
    launch_after_previous(add_partials<decltype(zero)>, grid, dim3(kAcross, kLanes), 0,
                          static_cast<cudaStream_t>(stream), p);
  });
}

}  // namespace snug::ops
