// A fixed number of blocks walks the rows, each with its own sums of dweight and dbias, which it
// leaves in the scratch; a second kernel adds them up in order. No atomics: the same bits always.
#include "ops/norm/norm_cuda.h"
#include "ops/norm/norm_ports.h"
#include "ops/norm/norm_rows.cuh"

namespace snug::ops {
namespace {

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

// The groups' sums added in order, into the block's partial rows.
template <typename T, int kParams, int kWarps>
__device__ void write_partial(ParamSums<T, kParams>& sums, float* partial, int columns) {
  using Group = RowGroup<kWarps>;
  constexpr int kSize = Pack<T>::kSize;
  if constexpr (Group::kGroups > 1) {
    __shared__ float shared[kParams * kRowPacks * kSize][Group::kThreads];
    for (int g = 0; g < Group::kGroups; ++g) {
      if (Group::group() == g) {
#pragma unroll
        for (int p = 0; p < kParams; ++p) {
#pragma unroll
          for (int k = 0; k < kRowPacks; ++k) {
#pragma unroll
            for (int i = 0; i < kSize; ++i) {
              float& sum = shared[(p * kRowPacks + k) * kSize + i][Group::lane()];
              if (g > 0) sums.v[p][k][i] += sum;
              sum = sums.v[p][k][i];
            }
          }
        }
      }
      __syncthreads();
    }
  }
  if (Group::group() != Group::kGroups - 1) return;
  for_row_packs<T, kWarps>(columns, [&](int k, int column) {
#pragma unroll
    for (int p = 0; p < kParams; ++p) {
#pragma unroll
      for (int i = 0; i < kSize; i += 4) {
        *reinterpret_cast<float4*>(partial + p * columns + column + i) = make_float4(
            sums.v[p][k][i], sums.v[p][k][i + 1], sums.v[p][k][i + 2], sums.v[p][k][i + 3]);
      }
    }
  });
}

// Blocks per multiprocessor, so that all of norm_grad_blocks run at once.
template <int kWarps, int kParams>
constexpr int kResident = static_cast<int>(
    std::max<int64_t>(1, norm_grad_blocks(int64_t{1} << 40, kWarps, kParams) / 132));

template <typename T, bool kCentered, bool kRemakes, int kWarps>
__global__ void __launch_bounds__(RowGroup<kWarps>::kBlock, kResident<kWarps, kCentered ? 2 : 1>)
    norm_grad_rows(NormGrad<T> p) {
  using Group = RowGroup<kWarps>;
  using V = Pack<T>;
  constexpr int kParams = kCentered ? 2 : 1;
  RowSum<kWarps> row_sum;
  ParamSums<T, kParams> sums;
  for (int64_t row = int64_t{blockIdx.x} * Group::kGroups + Group::group(); row < p.rows;
       row += int64_t{gridDim.x} * Group::kGroups) {
    const int64_t start = row * p.columns;
    V x[kRowPacks], dy[kRowPacks], dx_sum[kRowPacks] = {};
    for_row_packs<T, kWarps>(p.columns, [&](int k, int column) {
      x[k] = V::load_once(p.x + start + column);
      dy[k] = V::load_once(p.dy + start + column);
      if (p.dx_sum != nullptr) dx_sum[k] = V::load_once(p.dx_sum + start + column);
    });
    const float mean = kCentered ? p.mean[row] : 0;
    const float rstd = p.rstd[row];
    float totals[kParams] = {};
    for_row_packs<T, kWarps>(p.columns, [&](int k, int column) {
      const V weight = V::load(p.weight + column);
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) {
        const float n = (x[k][i] - mean) * rstd;
        const float weighted = dy[k][i] * weight[i];
        totals[0] += weighted * n;
        sums.v[0][k][i] += dy[k][i] * n;
        if constexpr (kCentered) {
          totals[1] += weighted;
          sums.v[1][k][i] += dy[k][i];
        }
      }
      keep_packed(x[k]);
      keep_packed(dy[k]);
      keep_packed(dx_sum[k]);
    });
    row_sum(totals);
    const RowMeans means{totals[0] * p.per_column, kCentered ? totals[1] * p.per_column : 0};
    for_row_packs<T, kWarps>(p.columns, [&](int k, int column) {
      const V weight = V::load(p.weight + column);
      V bias;
      if constexpr (kRemakes && kCentered) bias = V::load(p.bias + column);
      V dx, y;
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) {
        const float n = (x[k][i] - mean) * rstd;
        dx.set(i, dx_of(dy[k][i], weight[i], n, rstd, means, dx_sum[k][i]));
        if constexpr (kRemakes) {
          y.set(i, normed<kCentered>(x[k][i], mean, rstd, weight[i], kCentered ? bias[i] : 0));
        }
      }
      dx.store(p.dx + start + column);
      if constexpr (kRemakes) y.store(p.y + start + column);
    });
  }
  write_partial<T, kParams, kWarps>(sums, p.partial + int64_t{blockIdx.x} * kParams * p.columns,
                                    p.columns);
}

// Rows of any width: a block walks each of them in memory, a thread its own columns, whose sums it
// keeps in the block's partial rows.
template <typename T, bool kCentered, bool kRemakes>
__global__ void __launch_bounds__(kAnyRow) norm_grad_any(NormGrad<T> p) {
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

// --- the parameters' gradients -------------------------------------------------------------------

// Param blockIdx.y: out[c] = start[c] + the partials of all blocks, in an order that depends on
// nothing but their number. start may be nullptr or out.
template <typename G>
struct PartialSums {
  const float* partial;  // [blocks, params, C]
  const G* start[2];
  G* out[2];
  int blocks, columns;
};

constexpr int kSlices = 32;

template <typename G>
__global__ void __launch_bounds__(32 * kSlices) sum_partials(PartialSums<G> p) {
  __shared__ float slices[kSlices][32];
  const auto param = blockIdx.y;
  const int column = static_cast<int>(blockIdx.x * 32 + threadIdx.x);
  const int64_t stride = int64_t{gridDim.y} * p.columns;
  float sum = 0;
  if (column < p.columns) {
    const float* partial = p.partial + int64_t{param} * p.columns + column;
#pragma unroll 8
    for (int b = static_cast<int>(threadIdx.y); b < p.blocks; b += kSlices) {
      sum += partial[b * stride];
    }
  }
  slices[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= p.columns) return;
  const G* start = param == 0 ? p.start[0] : p.start[1];
  float total = start != nullptr ? to_float(start[column]) : 0;
#pragma unroll
  for (int s = 0; s < kSlices; ++s) total += slices[s][threadIdx.x];
  (param == 0 ? p.out[0] : p.out[1])[column] = from_float<G>(total);
}

template <bool kCentered>
void add_partials(const KernelArgs& a, int blocks) {
  using P = NormGradPorts<kCentered>;
  visit_device_float(a.out(P::dweight).type->dtype, [&](auto zero) {
    using G = decltype(zero);
    const int columns = static_cast<int>(a.out(P::dweight).elements());
    PartialSums<G> p{.partial = reinterpret_cast<const float*>(a.workspace.data()),
                     .start = {a.in<G>(P::dweight_sum), nullptr},
                     .out = {a.out<G>(P::dweight), nullptr},
                     .blocks = blocks,
                     .columns = columns};
    if constexpr (kCentered) {
      p.start[1] = a.in<G>(P::dbias_sum);
      p.out[1] = a.out<G>(P::dbias);
    }
    const dim3 grid(static_cast<unsigned>(ceil_div(columns, 32)), P::params);
    sum_partials<G><<<grid, dim3(32, kSlices), 0, stream_of(a)>>>(p);
  });
  check_launch("the sum of a norm's parameter gradients");
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
  const auto blocks = static_cast<int>(norm_grad_blocks(p.rows, warps, P::params));
  if (warps == 0) {
    norm_grad_any<T, kCentered, kRemakes><<<blocks, kAnyRow, 0, stream_of(a)>>>(p);
  } else {
    visit_row_warps(warps, [&](auto w) {
      constexpr int kWarps = decltype(w)::value;
      norm_grad_rows<T, kCentered, kRemakes, kWarps>
          <<<blocks, RowGroup<kWarps>::kBlock, 0, stream_of(a)>>>(p);
    });
  }
  check_launch(kCentered ? "layer_norm_grad" : "rms_norm_grad");
  add_partials<kCentered>(a, blocks);
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
