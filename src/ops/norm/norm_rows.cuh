// What the norms' CUDA kernels share. One or several warps hold a row, four packs to a lane: every
// tensor is read and written once, and the next rows are on their way meanwhile.
#pragma once

#include "ops/cuda/copies.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/rows.cuh"

namespace snug::ops {

constexpr int kRowPacks = 4;  // per lane, as norm_row_warps counts
constexpr int kAnyRow = 256;  // threads of a block that walks rows of any width in memory

// An element's norm. The one expression that forward and a backward that makes y again share: no
// compiler may contract it otherwise, for their bits must agree.
template <bool kCentered>
__device__ float normed(float x, float mean, float rstd, float weight, float bias) {
  if constexpr (!kCentered) return __fmul_rn(__fmul_rn(x, rstd), weight);
  return __fmaf_rn(__fmul_rn(__fsub_rn(x, mean), rstd), weight, bias);
}

// Keeps a pack as its 16 bytes: without this the compiler holds the floats that it made of them
// from one use to the next, twice the registers.
template <typename T>
__device__ void keep_packed(Pack<T>& pack) {
  uint4 raw = *reinterpret_cast<const uint4*>(&pack);
  asm volatile("" : "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w));
  pack = *reinterpret_cast<const Pack<T>*>(&raw);
}

// fn(k, column) for this lane's packs of a row: pack k starts at that column.
template <typename T, int kWarps, typename Fn>
__device__ void for_row_packs(int columns, const Fn& fn) {
  using Group = RowGroup<kWarps>;
#pragma unroll
  for (int k = 0; k < kRowPacks; ++k) {
    const int column = (k * Group::kThreads + Group::lane()) * Pack<T>::kSize;
    if (column < columns) fn(k, column);
  }
}

// --- rows on their way ---------------------------------------------------------------------------

// Bytes of shared memory that kStages rows of each group take, for each of `tensors` tensors.
constexpr size_t row_stage_bytes(int tensors, int stages) {
  return size_t{16} * kRowPacks * RowGroup<1>::kBlock * tensors * stages;
}

extern __shared__ uint4 row_stages[];

// Rows of several tensors in dynamic shared memory, kStages of each. Every lane copies the packs
// that it will read itself, so nobody waits for anybody.
template <typename T, int kWarps, int kStages>
struct RowStages {
  using V = Pack<T>;
  const int columns;
  const uint32_t first = shared_address(row_stages + threadIdx.x);

  // Counted in packs from the lane's first one.
  __device__ static uint32_t place(int tensor, int stage, int k) {
    return ((tensor * kStages + stage) * kRowPacks + k) * RowGroup<kWarps>::kBlock;
  }
  __device__ static V at(int tensor, int stage, int k) {
    const uint4 raw = row_stages[place(tensor, stage, k) + threadIdx.x];
    return *reinterpret_cast<const V*>(&raw);
  }
  // Starts the copy of one row.
  __device__ void copy(int tensor, int stage, const T* from, int64_t row) const {
    const int lane = RowGroup<kWarps>::lane();
    const T* mine = from + row * columns + lane * V::kSize;
    for_row_packs<T, kWarps>(columns, [&](int k, int column) {
      start_copy<16>(first + 16 * place(tensor, stage, k), mine + (column - lane * V::kSize));
    });
  }
};

// fn(row, stage) for this group's rows, with fetch(row, stage) called kStages - 1 rows ahead: what
// it starts to copy is there when fn gets the row.
template <int kWarps, int kStages, typename Fetch, typename Fn>
__device__ void for_staged_rows(int64_t rows, const Fetch& fetch, const Fn& fn) {
  const int64_t step = RowGroup<kWarps>::row_step();
  int64_t ahead = RowGroup<kWarps>::first_row();
  const auto fetch_next = [&](int stage) {
    if (ahead < rows) fetch(ahead, stage);
    close_batch();  // also where nothing is left: the wait below counts rows
    ahead += step;
  };
#pragma unroll
  for (int s = 0; s < kStages - 1; ++s) fetch_next(s);
  int stage = 0;
  for (int64_t row = RowGroup<kWarps>::first_row(); row < rows; row += step) {
    fetch_next(stage == 0 ? kStages - 1 : stage - 1);
    wait_batches<kStages - 1>();
    fn(row, stage);
    stage = stage == kStages - 1 ? 0 : stage + 1;
  }
}

}  // namespace snug::ops
