// A fixed number of blocks walks the rows, each with its own sums of dweight and dbias, which it
// leaves in the scratch; a second kernel adds them up in order. No atomics: the same bits always.
#include "kernels/cuda/column_sum.h"
#include "kernels/cuda/rows.cuh"
#include "ops/norm/norm_cuda.h"
#include "ops/norm/norm_grad_ring.cuh"
#include "ops/norm/norm_ports.h"

namespace snug::ops {
namespace {

// --- rows in stages, four vectors to a lane
// --------------------------------------------------------

constexpr int kRowVectors = 4;  // as norm_row_warps counts

// fn(k, column) for this lane's vectors of a row: vector k starts at that column.
template <typename T, int kWarps, typename Fn>
__device__ void for_row_vectors(int columns, const Fn& fn) {
  using Group = RowGroup<kWarps>;
#pragma unroll
  for (int k = 0; k < kRowVectors; ++k) {
    const int column = (k * Group::kThreads + Group::lane()) * Vector<T>::kSize;
    if (column < columns) fn(k, column);
  }
}

// Bytes of shared memory for kStages rows of each group and of each of `tensors` tensors.
constexpr size_t row_stage_bytes(int tensors) {
  return size_t{16} * kRowVectors * RowGroup<1>::kBlock * tensors * kStages;
}

// Rows of several tensors in dynamic shared memory, kStages of each. Every lane copies the vectors
// that it will read itself, so no lane waits for another.
template <typename T, int kWarps>
struct RowStages {
  using V = Vector<T>;
  const int columns;
  const uint32_t first = shared_address(row_stages + threadIdx.x);

  // Counted in vectors from the lane's first one.
  __device__ static uint32_t place(int tensor, int stage, int k) {
    return ((tensor * kStages + stage) * kRowVectors + k) * RowGroup<kWarps>::kBlock;
  }
  __device__ static V at(int tensor, int stage, int k) {
    const uint4 raw = row_stages[place(tensor, stage, k) + threadIdx.x];
    return *reinterpret_cast<const V*>(&raw);
  }
  // Starts the copy of one row.
  __device__ void copy(int tensor, int stage, const T* from, int64_t row) const {
    const int lane = RowGroup<kWarps>::lane();
    const T* mine = from + row * columns + lane * V::kSize;
    for_row_vectors<T, kWarps>(columns, [&](int k, int column) {
      start_copy<16>(first + 16 * place(tensor, stage, k), mine + (column - lane * V::kSize));
    });
  }
};

template <typename T, bool kCentered, bool kRecomputes, int kWarps>
__global__ void __launch_bounds__(RowGroup<kWarps>::kBlock, 1) norm_grad_rows(NormGrad<T> p) {
  using Group = RowGroup<kWarps>;
  using V = Vector<T>;
  constexpr int kParams = kCentered ? 2 : 1;
  after_previous();
  __shared__ float stats[kParams][kStages][Group::kBlock];  // rstd, mean
  const uint32_t stats_at = shared_address(&stats[0][0][threadIdx.x]);
  const RowStages<T, kWarps> stages{p.columns};
  const auto fetch = [&](int64_t row, int stage) {
    stages.copy(kX, stage, p.x, row);
    stages.copy(kDy, stage, p.dy, row);
    if (p.dx_sum != nullptr) stages.copy(kDxSum, stage, p.dx_sum, row);
    const auto to = static_cast<uint32_t>(stats_at + stage * sizeof(stats[0][0]));
    start_copy<4>(to, p.rstd + row);
    if constexpr (kCentered) start_copy<4>(to + sizeof(stats[0]), p.mean + row);
  };
  // Held where the sums leave registers for it.
  V held[kCentered ? 1 : kRowVectors];
  for_row_vectors<T, kWarps>(p.columns, [&](int k, int column) {
    if constexpr (!kCentered) held[k] = V::load(p.weight + column);
  });
  const auto weight_at = [&](int k, int column) {
    if constexpr (kCentered) return V::load(p.weight + column);
    keep_packed(held[k]);
    return held[k];
  };
  RowSum<kWarps> row_sum;
  ParamSums<T, kParams, kRowVectors> sums;
  const auto work = [&](int64_t row, int stage) {
    const int64_t start = row * p.columns;
    const float rstd = stats[0][stage][threadIdx.x];
    const float mean = kCentered ? stats[kParams - 1][stage][threadIdx.x] : 0;
    float totals[kParams] = {};
    for_row_vectors<T, kWarps>(p.columns, [&](int k, int column) {
      const V x = stages.at(kX, stage, k);
      const V dy = stages.at(kDy, stage, k);
      add_vector(k, x, dy, weight_at(k, column), p.offset, mean, rstd, totals, sums);
    });
    row_sum(totals);
    const RowMeans means = row_means(totals, p.per_column);
    for_row_vectors<T, kWarps>(p.columns, [&](int k, int column) {
      const V x = stages.at(kX, stage, k);
      const V dy = stages.at(kDy, stage, k);
      V dx_sum = {}, bias, dx, y;
      if (p.dx_sum != nullptr) dx_sum = stages.at(kDxSum, stage, k);
      if constexpr (kRecomputes && kCentered) bias = V::load(p.bias + column);
      const V weight = weight_at(k, column);
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) {
        const float n = (x[i] - mean) * rstd;
        const float w = weight[i] + p.offset;
        dx.set(i, dx_of(dy[i], w, n, rstd, means, dx_sum[i]));
        if constexpr (kRecomputes) {
          y.set(i, normed<kCentered>(x[i], mean, rstd, w, kCentered ? bias[i] : 0));
        }
      }
      dx.store(p.dx + start + column);
      if constexpr (kRecomputes) y.store(p.y + start + column);
    });
  };
  for_staged_rows(p.rows - 1 - Group::first_row(), Group::row_step(), fetch, work);
  const auto for_vectors = [&](const auto& fn) { for_row_vectors<T, kWarps>(p.columns, fn); };
  write_partial(sums, Group::group(), Group::kGroups, for_vectors,
                p.partial + int64_t{blockIdx.x} * kParams * p.columns, p.columns);
}

// Rows of any width: a block walks each of them in memory, a thread its own columns, whose sums it
// keeps in the block's partial rows.
template <typename T, bool kCentered, bool kRecomputes>
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
      const float weighted = dy * (to_float(p.weight[c]) + p.offset);
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
      const float weight = to_float(p.weight[c]) + p.offset;
      const float n = (x - mean) * rstd;
      const float before = p.dx_sum != nullptr ? to_float(p.dx_sum[at]) : 0;
      p.dx[at] = from_float<T>(dx_of(to_float(p.dy[at]), weight, n, rstd, means, before));
      if constexpr (kRecomputes) {
        const float bias = kCentered ? to_float(p.bias[c]) : 0;
        p.y[at] = from_float<T>(normed<kCentered>(x, mean, rstd, weight, bias));
      }
    });
  }
}

// --- launches ------------------------------------------------------------------------------------

// Was it launched? Where its warps hold a row, and the device has the shared memory.
template <typename T, bool kCentered, bool kRecomputes>
bool launch_staged(const NormGrad<T>& p, int warps, unsigned blocks, cudaStream_t stream) {
  if (warps == 0) return false;
  const size_t bytes = row_stage_bytes(p.dx_sum != nullptr ? 3 : 2);
  bool launched = false;
  visit_row_warps(warps, [&](auto w) {
    constexpr int kWarps = decltype(w)::value, kBlock = RowGroup<kWarps>::kBlock;
    static_assert(row_stage_bytes(2) >= kBlock * sizeof(ParamSums<T, 2, kRowVectors>));
    const auto kernel = norm_grad_rows<T, kCentered, kRecomputes, kWarps>;
    launched = static_cast<int64_t>(bytes) <= most_dynamic_shared(kernel);
    if (launched) launch_after_previous(kernel, blocks, kBlock, bytes, stream, p);
  });
  return launched;
}

// The ring was faster for layer norms, but for rows of which little is moved (H200). Which kernel
// takes a row depends on the device's shared memory too, and with it the order of the sums: the last
// bits of the gradients.
template <typename T, bool kCentered, bool kRecomputes>
void launch_fastest(const NormGrad<T>& p, int warps, unsigned blocks, cudaStream_t stream) {
  constexpr int64_t kLittle = 6 * 1024;  // bytes
  const int64_t tensors = 3 + (p.dx_sum != nullptr ? 1 : 0) + (kRecomputes ? 1 : 0);
  const bool ring_first = kCentered && tensors * p.columns * int64_t{sizeof(T)} > kLittle;
  if (ring_first && launch_ring<T, kCentered, kRecomputes>(p, blocks, stream)) return;
  if (launch_staged<T, kCentered, kRecomputes>(p, warps, blocks, stream)) return;
  if (launch_ring<T, kCentered, kRecomputes>(p, blocks, stream)) return;
  launch_after_previous(norm_grad_any<T, kCentered, kRecomputes>, blocks, kAnyRow, 0, stream, p);
}

template <typename T, bool kCentered, bool kRecomputes>
void launch(const KernelArgs& a) {
  using P = NormGradPorts<kCentered>;
  const int64_t columns = a.in(P::x).shape().back();
  const NormGrad<T> p{.x = a.in<T>(P::x),
                      .weight = a.in<T>(P::weight),
                      .bias = kCentered && kRecomputes ? a.in<T>(P::bias) : nullptr,
                      .dy = a.in<T>(P::dy),
                      .dx_sum = a.in<T>(P::dx_sum),
                      .mean = kCentered ? a.in<float>(P::mean) : nullptr,
                      .rstd = a.in<float>(P::rstd),
                      .dx = a.out<T>(P::dx),
                      .y = kRecomputes ? a.out<T>(P::y) : nullptr,
                      .partial = reinterpret_cast<float*>(a.workspace.data()),
                      .rows = a.in(P::x).shape().rows(),
                      .columns = static_cast<int>(columns),
                      .per_column = 1 / static_cast<float>(columns),
                      .offset = static_cast<float>(a.attrs.f("offset", 0))};
  const int warps = norm_row_warps(columns, sizeof(T));
  const auto blocks = static_cast<unsigned>(norm_grad_blocks(p.rows, warps));
  launch_fastest<T, kCentered, kRecomputes>(p, warps, blocks, stream_of(a));
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

template <bool kCentered, bool kRecomputes>
void norm_grad(const KernelArgs& a) {
  visit_device_float(a.in(0).type->dtype,
                     [&](auto zero) { launch<decltype(zero), kCentered, kRecomputes>(a); });
}

}  // namespace

void rms_norm_grad_cuda(const KernelArgs& a) { norm_grad<false, false>(a); }
void rms_norm_recompute_grad_cuda(const KernelArgs& a) { norm_grad<false, true>(a); }
void layer_norm_grad_cuda(const KernelArgs& a) { norm_grad<true, false>(a); }
void layer_norm_recompute_grad_cuda(const KernelArgs& a) { norm_grad<true, true>(a); }

}  // namespace snug::ops
