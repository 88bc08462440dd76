// What the norms' CUDA kernels share. A row lies in the registers of one or several warps, four
// packs to a lane: every tensor is read and written once.
#pragma once

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

// Keeps a row's pack as its 16 bytes across the sum over the row: without this the compiler holds
// the floats that it made of them, twice the registers.
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

}  // namespace snug::ops
