// Backward of norms whose sums fill registers: two vectors to a lane, or three where those fill a
// warp with a row, in exactly as many warps as a row needs, and the parameters in shared memory. Of
// layer norms, which have two sums, and wherever shared memory is too small for the other kernel:
// this one takes as many groups as fit.
#pragma once

#include "kernels/cuda/shared_memory.h"
#include "ops/norm/norm_grad.cuh"

namespace snug::ops {

// As many threads as leave each the registers for its sums.
template <int kVectors>
constexpr int kRingThreads = kVectors == 2 ? 768 : 640;
static_assert(kRingThreads<2> / 64 <= 15, "groups of two warps and more have a barrier each");

// kStages rows of up to three tensors for every group. A lane copies the vectors that it will read
// itself, so no lane waits for another.
template <typename T, int kVectors>
struct RowRing {
  using V = Vector<T>;
  int columns;
  uint32_t data = shared_address(row_stages);
  int row_vectors = columns / V::kSize;
  int stride = static_cast<int>(blockDim.y) * row_vectors;  // from a stage to the next, in vectors
  int mine = static_cast<int>(threadIdx.y) * row_vectors;

  __device__ int slot(int tensor, int stage) const {  // in vectors
    return (tensor * kStages + stage) * stride + mine;
  }
  __device__ V at(int tensor, int stage, int k) const {
    const uint4 raw =
        row_stages[slot(tensor, stage) + static_cast<int>(k * blockDim.x + threadIdx.x)];
    return *reinterpret_cast<const V*>(&raw);
  }
  // Starts the copy of one row.
  __device__ void copy(int tensor, int stage, const T* from, int64_t row) const {
    const uint32_t to = data + 16 * slot(tensor, stage);
    for_group_vectors<T, kVectors>(columns, [&](int, int column) {
      start_copy<16>(to + column * static_cast<uint32_t>(sizeof(T)), from + row * columns + column);
    });
  }
  // What the block holds after its `tensors` tensors.
  __device__ uint4* after(int tensors) const { return row_stages + tensors * kStages * stride; }
};

// The parameters in shared memory: weight, then the bias, or nullptr.
template <typename T>
class HeldParams {
 public:
  __device__ HeldParams(uint4* held, const T* weight, const T* bias, int row_vectors)
      : held_(held), row_vectors_(row_vectors) {
    const int threads = static_cast<int>(blockDim.x * blockDim.y);
    for (int at = static_cast<int>(threadIdx.y * blockDim.x + threadIdx.x); at < row_vectors;
         at += threads) {
      held_[at] = reinterpret_cast<const uint4*>(weight)[at];
      if (bias != nullptr) held_[row_vectors + at] = reinterpret_cast<const uint4*>(bias)[at];
    }
  }
  __device__ Vector<T> weight(int column) const { return at(column / Vector<T>::kSize); }
  __device__ Vector<T> bias(int column) const {
    return at(row_vectors_ + column / Vector<T>::kSize);
  }

 private:
  __device__ Vector<T> at(int vector) const {
    const uint4 raw = held_[vector];
    return *reinterpret_cast<const Vector<T>*>(&raw);
  }
  uint4* held_;
  int row_vectors_;
};

template <typename T, bool kCentered, bool kRecomputes, int kVectors>
__global__ void __launch_bounds__(kRingThreads<kVectors>, 1) norm_grad_ring(NormGrad<T> p) {
  constexpr int kParams = kCentered ? 2 : 1;
  using V = Vector<T>;
  using Sum = GroupSum<kParams, /*kAlone=*/false>;
  after_previous();
  __shared__ alignas(16) typename Sum::Slots slots;
  const RowRing<T, kVectors> ring{p.columns};
  const auto fetch = [&](int row, int stage) {
    ring.copy(kX, stage, p.x, row);
    ring.copy(kDy, stage, p.dy, row);
    if (p.dx_sum != nullptr) ring.copy(kDxSum, stage, p.dx_sum, row);
  };
  Sum row_sum{slots};
  const HeldParams<T> params{ring.after(p.dx_sum != nullptr ? 3 : 2), p.weight,
                             kRecomputes && kCentered ? p.bias : nullptr, ring.row_vectors};
  __syncthreads();  // the parameters are there
  const auto last =
      static_cast<int>(p.rows) - 1 - static_cast<int>(threadIdx.y * gridDim.x + blockIdx.x);
  const auto step = static_cast<int>(gridDim.x * blockDim.y);
  float next_rstd = 0, next_mean = 0;
  const auto load_statistics = [&](int row) {
    if (row < 0) return;
    next_rstd = p.rstd[row];
    if constexpr (kCentered) next_mean = p.mean[row];
  };
  load_statistics(last);
  ParamSums<T, kParams, kVectors> sums;
  for_staged_rows(last, step, fetch, [&](int row, int stage) {
    const int64_t start = int64_t{row} * p.columns;
    const float rstd = next_rstd;
    const float mean = kCentered ? next_mean : 0;
    load_statistics(row - step);
    float totals[kParams] = {};
    for_group_vectors<T, kVectors>(p.columns, [&](int k, int column) {
      const V x = ring.at(kX, stage, k);
      const V dy = ring.at(kDy, stage, k);
      add_vector(k, x, dy, params.weight(column), p.offset, mean, rstd, totals, sums);
    });
    row_sum(totals);
    const RowMeans means = row_means(totals, p.per_column);
#pragma unroll 1  // the sums leave registers for one vector at a time
    for (int k = 0; k < kVectors; ++k) {
      const int column = static_cast<int>(k * blockDim.x + threadIdx.x) * V::kSize;
      if (column >= p.columns) break;
      const V x = ring.at(kX, stage, k);
      const V dy = ring.at(kDy, stage, k);
      const V weight = params.weight(column);
      V dx_sum = {}, dx;
      if (p.dx_sum != nullptr) dx_sum = ring.at(kDxSum, stage, k);
#pragma unroll
      for (int i = 0; i < V::kSize; ++i) {
        const float n = (x[i] - mean) * rstd;
        dx.set(i, dx_of(dy[i], weight[i] + p.offset, n, rstd, means, dx_sum[i]));
      }
      dx.store(p.dx + start + column);
      if constexpr (kRecomputes) {
        V y, bias = {};
        if constexpr (kCentered) bias = params.bias(column);
#pragma unroll
        for (int i = 0; i < V::kSize; ++i)
          y.set(i,
                normed<kCentered>(x[i], mean, rstd, weight[i] + p.offset, kCentered ? bias[i] : 0));
        y.store(p.y + start + column);
      }
    }
  });
  const auto for_vectors = [&](const auto& fn) { for_group_vectors<T, kVectors>(p.columns, fn); };
  write_partial(sums, static_cast<int>(threadIdx.y), static_cast<int>(blockDim.y), for_vectors,
                p.partial + int64_t{blockIdx.x} * kParams * p.columns, p.columns);
}

// Was it launched? Where rows vectorise, and a block holds one.
template <typename T, bool kCentered, bool kRecomputes, int kVectors>
bool launch_ring_of(const NormGrad<T>& p, unsigned blocks, cudaStream_t stream) {
  constexpr int kParams = kCentered ? 2 : 1;
  const int64_t row = p.columns * int64_t{sizeof(T)};
  if (row == 0 || row % 16 != 0 || p.rows > INT32_MAX / 2) return false;
  const auto kernel = norm_grad_ring<T, kCentered, kRecomputes, kVectors>;
  const int64_t warps = group_warps(row, kVectors);
  const int64_t of_group = row * kStages * (p.dx_sum != nullptr ? 3 : 2);
  const int64_t room = most_dynamic_shared(kernel) - kParams * row;
  const int64_t groups = std::min(kRingThreads<kVectors> / (32 * warps), room / of_group);
  if (groups < 1) return false;
  launch_after_previous(kernel, blocks,
                        dim3(static_cast<unsigned>(32 * warps), static_cast<unsigned>(groups)),
                        static_cast<size_t>(groups * of_group + kParams * row), stream, p);
  return true;
}

// One warp to a row needs no barrier: rows of 768 halves, which are GPT-2's and BERT's.
template <typename T, bool kCentered, bool kRecomputes>
bool launch_ring(const NormGrad<T>& p, unsigned blocks, cudaStream_t stream) {
  if constexpr (kCentered && sizeof(T) == 2) {
    if (p.columns * int64_t{sizeof(T)} == 3 * 32 * 16)
      return launch_ring_of<T, kCentered, kRecomputes, 3>(p, blocks, stream);
  }
  return launch_ring_of<T, kCentered, kRecomputes, 2>(p, blocks, stream);
}

}  // namespace snug::ops
