// A fixed number of blocks walks the rows, each with its own sums of dweight and dbias, which it
// leaves in the scratch; a second kernel adds them up in order. No atomics: the same bits always.
#include "ops/cuda/column_sum.h"
#include "ops/norm/norm_cuda.h"
#include "ops/norm/norm_ports.h"
#include "ops/norm/norm_rows.cuh"

namespace snug::ops {
namespace {

constexpr int kStages = 2;  // rows per group on their way or at work
enum Tensor { kX, kDy, kDxSum };

template <typename T>
struct NormGrad {
  const T *x, *weight, *bias, *dy, *dx_sum;  // bias: where y is made again; dx_sum: or nullptr
  const float *mean, *rstd;                  // [rows]
  T *dx, *y;  // each may lie in x, dy or dx_sum: a thread reads its elements before it writes them
  float* partial;  // [blocks, params, C]
  int64_t rows;
  int columns;
  float per_column;
};

// What dx takes from the whole row, from the sums of dy * weight * n and of dy * weight.
struct RowMeans {
  float dot, sum;
};

// dx = rstd * (dy * weight - mean(dy * weight) - n * mean(dy * weight * n)) + start,
// with n = (x - mean) * rstd.
__device__ float dx_of(float dy, float weight, float n, float rstd, RowMeans means, float start) {
  return rstd * (dy * weight - means.sum - n * means.dot) + start;
}

// A lane's share of the parameters' gradients: of its packs, over all rows of its group.
template <typename T, int kParams>
struct ParamSums {
  float v[kParams][kRowPacks][Pack<T>::kSize] = {};
};

// The groups' sums added in order, into the block's partial rows. Takes the rows' shared memory.
template <typename T, int kParams, int kWarps>
__device__ void write_partial(const ParamSums<T, kParams>& sums, float* partial, int columns) {
  using Group = RowGroup<kWarps>;
  auto* groups = reinterpret_cast<float4*>(row_stages);  // [groups, params, columns]
  const int count = kParams * columns / 4;
  __syncthreads();  // all groups have read their rows
  for_row_packs<T, kWarps>(columns, [&](int k, int column) {
#pragma unroll
    for (int p = 0; p < kParams; ++p) {
      const auto& sum = sums.v[p][k];
      float4* to = groups + Group::group() * count + (p * columns + column) / 4;
#pragma unroll
      for (int i = 0; i < Pack<T>::kSize; i += 4)
        to[i / 4] = make_float4(sum[i], sum[i + 1], sum[i + 2], sum[i + 3]);
    }
  });
  __syncthreads();
  for (int at = static_cast<int>(threadIdx.x); at < count; at += Group::kBlock) {
    float4 total = groups[at];
#pragma unroll
    for (int g = 1; g < Group::kGroups; ++g) {
      const float4 more = groups[g * count + at];
      total.x += more.x, total.y += more.y, total.z += more.z, total.w += more.w;
    }
    reinterpret_cast<float4*>(partial)[at] = total;
  }
}

template <typename T, bool kCentered, bool kRemakes, int kWarps>
__global__ void __launch_bounds__(RowGroup<kWarps>::kBlock, 1) norm_grad_rows(NormGrad<T> p) {
  using V = Pack<T>;
  constexpr int kParams = kCentered ? 2 : 1;
  after_previous();
  __shared__ float stats[kParams][kStages][RowGroup<kWarps>::kBlock];  // rstd, mean
  const uint32_t stats_at = shared_address(&stats[0][0][threadIdx.x]);
  const RowStages<T, kWarps, kStages> stages{p.columns};
  const auto fetch = [&](int64_t row, int stage) {
    stages.copy(kX, stage, p.x, row);
    stages.copy(kDy, stage, p.dy, row);
    if (p.dx_sum != nullptr) stages.copy(kDxSum, stage, p.dx_sum, row);
    const auto to = static_cast<uint32_t>(stats_at + stage * sizeof(stats[0][0]));
    start_copy<4>(to, p.rstd + row);
    if constexpr (kCentered) start_copy<4>(to + sizeof(stats[0]), p.mean + row);
  };
  // Held where the sums leave registers for it.
  V held[kCentered ? 1 : kRowPacks];
  for_row_packs<T, kWarps>(p.columns, [&](int k, int column) {
    if constexpr (!kCentered) held[k] = V::load(p.weight + column);
  });
  const auto weight_at = [&](int k, int column) {
    if constexpr (kCentered) return V::load(p.weight + column);
    keep_packed(held[k]);
    return held[k];
  };
  RowSum<kWarps> row_sum;
  ParamSums<T, kParams> sums;
  for_staged_rows<kWarps, kStages>(p.rows, fetch, [&](int64_t row, int stage) {
    const int64_t start = row * p.columns;
    const float rstd = stats[0][stage][threadIdx.x];
    const float mean = kCentered ? stats[kParams - 1][stage][threadIdx.x] : 0;
    float totals[kParams] = {};
    for_row_packs<T, kWarps>(p.columns, [&](int k, int column) {
      const V x = stages.at(kX, stage, k);
      const V dy = stages.at(kDy, stage, k);
      const V weight = weight_at(k, column);
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) {
        const float n = (x[i] - mean) * rstd;
        const float weighted = dy[i] * weight[i];
        totals[0] += weighted * n;
        sums.v[0][k][i] += dy[i] * n;
        if constexpr (kCentered) {
          totals[1] += weighted;
          sums.v[1][k][i] += dy[i];
        }
      }
    });
    row_sum(totals);
    const RowMeans means{totals[0] * p.per_column, kCentered ? totals[1] * p.per_column : 0};
    for_row_packs<T, kWarps>(p.columns, [&](int k, int column) {
      const V x = stages.at(kX, stage, k);
      const V dy = stages.at(kDy, stage, k);
      V dx_sum = {}, bias, dx, y;
      if (p.dx_sum != nullptr) dx_sum = stages.at(kDxSum, stage, k);
      if constexpr (kRemakes && kCentered) bias = V::load(p.bias + column);
      const V weight = weight_at(k, column);
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) {
        const float n = (x[i] - mean) * rstd;
        dx.set(i, dx_of(dy[i], weight[i], n, rstd, means, dx_sum[i]));
        if constexpr (kRemakes) {
          y.set(i, normed<kCentered>(x[i], mean, rstd, weight[i], kCentered ? bias[i] : 0));
        }
      }
      dx.store(p.dx + start + column);
      if constexpr (kRemakes) y.store(p.y + start + column);
    });
  });
  write_partial<T, kParams, kWarps>(sums, p.partial + int64_t{blockIdx.x} * kParams * p.columns,
                                    p.columns);
}

// Rows of any width: a block walks each of them in memory, a thread its own columns, whose sums it
// keeps in the block's partial rows.
template <typename T, bool kCentered, bool kRemakes>
__global__ void __launch_bounds__(kAnyRow) norm_grad_any(NormGrad<T> p) {
  after_previous();
  float* dweight = p.partial + int64_t{blockIdx.x} * (kCentered ? 2 : 1) * p.columns;
  float* dbias = dweight + p.columns;
  const auto for_columns = [&](const auto& fn) {
    for (int c = static_cast<int>(threadIdx.x); c < p.columns; c += kAnyRow) fn(c);
  };
  for_columns([&](int c) {
    dweight[c] = 0;
    if constexpr (kCentered) dbias[c] = 0;
  });
  for (int64_t row = blockIdx.x; row < p.rows; row += gridDim.x) {
    const int64_t start = row * p.columns;
    const float mean = kCentered ? p.mean[row] : 0;
    const float rstd = p.rstd[row];
    float dot = 0;
    float sum = 0;
    for_columns([&](int c) {
      const float dy = to_float(p.dy[start + c]);
      const float n = (to_float(p.x[start + c]) - mean) * rstd;
      const float weighted = dy * to_float(p.weight[c]);
      dot += weighted * n;
      dweight[c] += dy * n;
      if constexpr (kCentered) {
        sum += weighted;
        dbias[c] += dy;
      }
    });
    const RowMeans means{block_sum<kAnyRow>(dot) * p.per_column,
                         kCentered ? block_sum<kAnyRow>(sum) * p.per_column : 0};
    for_columns([&](int c) {
      const int64_t at = start + c;
      const float x = to_float(p.x[at]);
      const float weight = to_float(p.weight[c]);
      const float n = (x - mean) * rstd;
      const float before = p.dx_sum != nullptr ? to_float(p.dx_sum[at]) : 0;
      p.dx[at] = from_float<T>(dx_of(to_float(p.dy[at]), weight, n, rstd, means, before));
      if constexpr (kRemakes) {
        const float bias = kCentered ? to_float(p.bias[c]) : 0;
        p.y[at] = from_float<T>(normed<kCentered>(x, mean, rstd, weight, bias));
      }
    });
  }
}

// --- launches ------------------------------------------------------------------------------------

template <typename T, bool kCentered, bool kRemakes>
void launch(const KernelArgs& a) {
  using P = NormGradPorts<kCentered>;
  const int64_t columns = a.in(P::x).shape().back();
  const NormGrad<T> p{.x = a.in<T>(P::x),
                      .weight = a.in<T>(P::weight),
                      .bias = kCentered && kRemakes ? a.in<T>(P::bias) : nullptr,
                      .dy = a.in<T>(P::dy),
                      .dx_sum = a.in<T>(P::dx_sum),
                      .mean = kCentered ? a.in<float>(P::mean) : nullptr,
                      .rstd = a.in<float>(P::rstd),
                      .dx = a.out<T>(P::dx),
                      .y = kRemakes ? a.out<T>(P::y) : nullptr,
                      .partial = reinterpret_cast<float*>(a.workspace.data()),
                      .rows = a.in(P::x).shape().rows(),
                      .columns = static_cast<int>(columns),
                      .per_column = 1 / static_cast<float>(columns)};
  const int warps = norm_row_warps(columns, sizeof(T));
  const auto blocks = static_cast<unsigned>(norm_grad_blocks(p.rows, warps));
  if (warps == 0) {
    launch_after_previous(norm_grad_any<T, kCentered, kRemakes>, blocks, kAnyRow, 0, stream_of(a),
                          p);
  } else {
    visit_row_warps(warps, [&](auto w) {
      constexpr int kWarps = decltype(w)::value;
      using Group = RowGroup<kWarps>;
      static_assert(row_stage_bytes(2, kStages) >= size_t{Group::kBlock} * sizeof(ParamSums<T, 2>));
      launch_after_previous(norm_grad_rows<T, kCentered, kRemakes, kWarps>, blocks, Group::kBlock,
                            row_stage_bytes(p.dx_sum != nullptr ? 3 : 2, kStages), stream_of(a), p);
    });
  }
  CudaPartialSums sums{.partials = p.partial,
                       .add = a.in<void>(P::dweight_sum),
                       .sum = a.out<void>(P::dweight),
                       .sums = P::params,
                       .blocks = blocks,
                       .columns = columns,
                       .sum_dtype = a.out(P::dweight).type->dtype};
  if constexpr (kCentered) {
    sums.add2 = a.in<void>(P::dbias_sum);
    sums.sum2 = a.out<void>(P::dbias);
  }
  cuda_add_partials(sums, a.stream);
}

template <bool kCentered, bool kRemakes>
void norm_grad(const KernelArgs& a) {
  visit_device_float(a.in(0).type->dtype,
                     [&](auto zero) { launch<decltype(zero), kCentered, kRemakes>(a); });
}

}  // namespace

void rms_norm_grad_cuda(const KernelArgs& a) { norm_grad<false, false>(a); }
void rms_norm_remake_grad_cuda(const KernelArgs& a) { norm_grad<false, true>(a); }
void layer_norm_grad_cuda(const KernelArgs& a) { norm_grad<true, false>(a); }
void layer_norm_remake_grad_cuda(const KernelArgs& a) { norm_grad<true, true>(a); }

}  // namespace snug::ops
