#include "ops/cuda/column_sum.h"
#include "ops/cuda/kernel.cuh"

namespace snug::ops {
namespace {

constexpr int kAcross = 32;  // threads along a row: a warp reads 512 bytes of it
constexpr int kRows = 16;    // rows that a block reads at once
constexpr int kAhead = 4;    // loads in flight per thread
constexpr int kLanes = 8;    // threads that share a column's partial sums

// kWidth neighbouring columns of one row, in fp32.
template <typename T, int kWidth>
struct Columns {
  using Raw = std::conditional_t<kWidth == 1, T, Pack<T>>;
  __device__ static Raw load(const T* from) {
    if constexpr (kWidth == 1)
      return *from;
    else
      return Pack<T>::load_once(from);
  }
  __device__ static float at(const Raw& raw, int i) {
    if constexpr (kWidth == 1)
      return to_float(raw);
    else
      return raw[i];
  }
};

// partials[block of rows, columns]. A thread owns kWidth columns of every kRows-th row of its block
// of rows; what the kRows threads of a column have is added in their order.
template <typename T, int kWidth>
__global__ void __launch_bounds__(kAcross* kRows, 2)
    sum_rows(const T* __restrict__ x, float* __restrict__ partials, int64_t rows, int64_t columns,
             int64_t rows_per_block) {
  using C = Columns<T, kWidth>;
  constexpr int kColumns = kAcross * kWidth;
  __shared__ float shared[kRows][kColumns];
  const int64_t column0 = static_cast<int64_t>(blockIdx.x) * kColumns;
  const int64_t column = column0 + threadIdx.x * kWidth;
  const int64_t end = min(rows, (blockIdx.y + 1) * rows_per_block);
  int64_t row = blockIdx.y * rows_per_block + threadIdx.y;

  float sum[kWidth] = {};
  auto add = [&](const typename C::Raw& raw) {
#pragma unroll
    for (int i = 0; i < kWidth; ++i) sum[i] += C::at(raw, i);
  };
  if (column < columns) {  // a whole pack: columns are a multiple of kWidth
    const T* from = x + row * columns + column;
    const int64_t step = kRows * columns;
    for (; row + (kAhead - 1) * kRows < end; row += kAhead * kRows, from += kAhead * step) {
      typename C::Raw raw[kAhead];
#pragma unroll
      for (int i = 0; i < kAhead; ++i) raw[i] = C::load(from + i * step);
#pragma unroll
      for (int i = 0; i < kAhead; ++i) add(raw[i]);
    }
    for (; row < end; row += kRows, from += step) add(C::load(from));
  }
#pragma unroll
  for (int i = 0; i < kWidth; ++i) shared[threadIdx.y][threadIdx.x * kWidth + i] = sum[i];
  __syncthreads();

  const int own = threadIdx.y * kAcross + threadIdx.x;
  if (own >= kColumns || column0 + own >= columns) return;
  float total = 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) total += shared[r][own];
  partials[blockIdx.y * columns + column0 + own] = total;
}

// sum = add + the blocks of each column.
template <typename T>
__global__ void add_partials(const float* __restrict__ partials, const T* add, T* sum,
                             int64_t blocks, int64_t columns) {
  __shared__ float shared[kLanes][kAcross];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kAcross + threadIdx.x;
  float part = 0;
  if (column < columns) {
#pragma unroll 8
    for (int64_t b = threadIdx.y; b < blocks; b += kLanes) part += partials[b * columns + column];
  }
  shared[threadIdx.y][threadIdx.x] = part;
  __syncthreads();
  if (threadIdx.y != 0 || column >= columns) return;
  float total = add != nullptr ? to_float(add[column]) : 0;
#pragma unroll
  for (int lane = 0; lane < kLanes; ++lane) total += shared[lane][threadIdx.x];
  sum[column] = from_float<T>(total);
}

template <typename T, int kWidth>
void launch_rows(const CudaColumnSum& p, int64_t blocks, cudaStream_t stream) {
  const dim3 grid(static_cast<unsigned>(ceil_div(p.columns, kAcross * kWidth)),
                  static_cast<unsigned>(blocks));
  sum_rows<T, kWidth><<<grid, dim3(kAcross, kRows), 0, stream>>>(
      static_cast<const T*>(p.x), static_cast<float*>(p.scratch), p.rows, p.columns,
      ceil_div(p.rows, blocks));
  check_launch("column_sum");
}

}  // namespace

void cuda_column_sum(const CudaColumnSum& p, void* stream) {
  if (p.columns == 0) return;
  const int64_t blocks = cuda_column_sum_blocks(p.rows, p.columns);
  visit_device_float(p.x_dtype, [&](auto zero) {
    using T = decltype(zero);
    const bool packed =
        packs<T>(p.columns) && reinterpret_cast<uintptr_t>(p.x) % sizeof(uint4) == 0;
    if (packed)
      launch_rows<T, Pack<T>::kSize>(p, blocks, static_cast<cudaStream_t>(stream));
    else
      launch_rows<T, 1>(p, blocks, static_cast<cudaStream_t>(stream));
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
  visit_device_float(p.sum_dtype, [&](auto zero) {
    using T = decltype(zero);
    add_partials<T><<<static_cast<unsigned>(ceil_div(p.columns, kAcross)), dim3(kAcross, kLanes), 0,
                      static_cast<cudaStream_t>(stream)>>>(
        p.partials, static_cast<const T*>(p.add), static_cast<T*>(p.sum), p.blocks, p.columns);
  });
  check_launch("add_partials");
}

}  // namespace snug::ops
