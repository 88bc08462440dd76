// What the CUDA kernels of the norms' backward share. Rows come through shared memory: while a
// group of threads works at one, its next is on its way.
#pragma once

#include "kernels/cuda/copies.cuh"
#include "ops/norm/norm_rows.cuh"

namespace snug::ops {

constexpr int kStages = 2;  // rows per group on their way or at work
enum Tensor { kX, kDy, kDxSum };

template <typename T>
struct NormGrad {
  const T *x, *weight, *bias, *dy, *dx_sum;  // bias: where y is recomputed; dx_sum: or nullptr
  const float *mean, *rstd;                  // [rows]
  T *dx, *y;  // each may alias x, dy or dx_sum: a thread reads its elements before it writes them
  float* partial;  // [blocks, params, C]
  int64_t rows;
  int columns;
  float per_column, offset;  // the latter is added to weights
};

// What dx takes from the whole row, from the sums of dy * weight * n and of dy * weight.
struct RowMeans {
  float dot, sum;
};

template <int kParams>
__device__ RowMeans row_means(const float (&totals)[kParams], float per_column) {
  return {totals[0] * per_column, kParams == 2 ? totals[kParams - 1] * per_column : 0};
}

// dx = rstd * (dy * weight - mean(dy * weight) - n * mean(dy * weight * n)) + start,
// with n = (x - mean) * rstd.
__device__ inline float dx_of(float dy, float weight, float n, float rstd, RowMeans means,
                              float start) {
  return rstd * (dy * weight - means.sum - n * means.dot) + start;
}

// --- rows on their way ---------------------------------------------------------------------------

extern __shared__ uint4 row_stages[];

// fn(row, stage) for a group's rows last, last - step, ... down to 0 (the matmul before wrote the
// last ones last: they are still in the cache), with fetch(row, stage) called kStages - 1 rows
// ahead: what it starts to copy is there when fn gets the row.
template <typename Row, typename Fetch, typename Fn>
__device__ void for_staged_rows(Row last, Row step, const Fetch& fetch, const Fn& fn) {
  Row ahead = last;
  const auto fetch_next = [&](int stage) {
    if (ahead >= 0) fetch(ahead, stage);
    close_batch();  // also where nothing is left: the wait below counts rows
    ahead -= step;
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) fetch_next(s);
  int stage = 0;
  for (Row row = last; row >= 0; row -= step) {
    fetch_next(stage == 0 ? kStages - 1 : stage - 1);
    wait_batches<kStages - 1>();
    fn(row, stage);
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
}

// --- the parameters' gradients -------------------------------------------------------------------

// A lane's share: of its vectors, over all rows of its group.
template <typename T, int kParams, int kVectors>
struct ParamSums {
  float v[kParams][kVectors][Vector<T>::kSize] = {};
};

// Adds vector k to the row's totals, of dy * weight * n and of dy * weight, and to the lane's sums.
template <typename T, int kParams, int kVectors>
__device__ void add_vector(int k, const Vector<T>& x, const Vector<T>& dy, const Vector<T>& weight,
                           float offset, float mean, float rstd, float (&totals)[kParams],
                           ParamSums<T, kParams, kVectors>& sums) {
#pragma unroll
  for (int i = 0; i < Vector<T>::kSize; ++i) {
    const float n = (x[i] - mean) * rstd;
    const float weighted = dy[i] * (weight[i] + offset);
    totals[0] += weighted * n;
    sums.v[0][k][i] += dy[i] * n;
    if constexpr (kParams == 2) {
      totals[1] += weighted;
      sums.v[1][k][i] += dy[i];
    }
  }
}

// The groups' sums added in order, into the block's partial rows [params, columns]. Takes the rows'
// shared memory. for_vectors(fn): fn(k, column) for this lane's vectors.
template <typename T, int kParams, int kVectors, typename ForVectors>
__device__ void write_partial(const ParamSums<T, kParams, kVectors>& sums, int group, int groups,
                              const ForVectors& for_vectors, float* partial, int columns) {
  auto* all = reinterpret_cast<float4*>(row_stages);  // [groups, params, columns]
  const int count = kParams * columns / 4;
  __syncthreads();  // all groups have read their rows
  for_vectors([&](int k, int column) {
#pragma unroll
    for (int p = 0; p < kParams; ++p) {
      const auto& sum = sums.v[p][k];
      float4* to = all + group * count + (p * columns + column) / 4;
#pragma unroll
      for (int i = 0; i < Vector<T>::kSize; i += 4)
        to[i / 4] = make_float4(sum[i], sum[i + 1], sum[i + 2], sum[i + 3]);
    }
  });
  __syncthreads();
  const int threads = static_cast<int>(blockDim.x * blockDim.y);
  for (int at = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); at < count;
       at += threads) {
    float4 total = all[at];
#pragma unroll
    for (int g = 1; g < groups; ++g) {
      const float4 more = all[g * count + at];
      total.x += more.x, total.y += more.y, total.z += more.z, total.w += more.w;
    }
    reinterpret_cast<float4*>(partial)[at] = total;
  }
}

}  // namespace snug::ops
