// What the norms' CUDA kernels share: the norm of an element, and rows that are held in registers
// by a group of as many warps as they need. A block is groups: threadIdx.x is the lane in a group,
// threadIdx.y the group.
#pragma once

#include "kernels/cuda/launch.cuh"

namespace snug::ops {

constexpr int kAnyRow = 256;  // threads of a block that walks rows of any width in memory

// An element's norm. The one expression that forward and a backward that recomputes y share: no
// compiler may contract it otherwise, for their bits must agree.
template <bool kCentered>
__device__ float normed(float x, float mean, float rstd, float weight, float bias) {
  if constexpr (!kCentered) return __fmul_rn(__fmul_rn(x, rstd), weight);
  return __fmaf_rn(__fmul_rn(__fsub_rn(x, mean), rstd), weight, bias);
}

// Keeps a vector as its 16 bytes: without this the compiler holds the floats that it made of them
// from one use to the next, twice the registers.
template <typename T>
__device__ void keep_packed(Vector<T>& vector) {
  uint4 raw = *reinterpret_cast<const uint4*>(&vector);
  asm volatile("" : "+r"(raw.x), "+r"(raw.y), "+r"(raw.z), "+r"(raw.w));
  vector = *reinterpret_cast<const Vector<T>*>(&raw);
}

// fn(k, column) for this lane's vectors of a row: vector k starts at that column.
template <typename T, int kVectors, typename Fn>
__device__ void for_group_vectors(int columns, const Fn& fn) {
#pragma unroll
  for (int k = 0; k < kVectors; ++k) {
    const int column = static_cast<int>(k * blockDim.x + threadIdx.x) * Vector<T>::kSize;
    if (column < columns) fn(k, column);
  }
}

// The warps that hold a row of `bytes` bytes with `vectors` vectors to a lane.
constexpr int64_t group_warps(int64_t bytes, int64_t vectors) {
  return std::max<int64_t>(ceil_div(bytes, 16 * 32 * vectors), 1);
}

// Sums over a group, in a fixed order. Slots alternate, so that one barrier per sum is enough: a
// thread that writes a slot again has passed the barrier of the sum between. kAlone: a block has
// one group, or groups of one warp; else it has at most 15, each with a barrier of its own after
// the block's.
template <int kValues, bool kAlone>
class GroupSum {
 public:
  static constexpr int kSlots = 64;  // warps of a block, each group's a multiple of four
  using Slots = float[2][kValues][kSlots];

  __device__ explicit GroupSum(Slots& slots)
      : slots_(slots), first_(static_cast<int>(threadIdx.y) * whole()) {
    const int lane = static_cast<int>(threadIdx.x);
    if (warps() == 1 || lane < warps() || lane >= whole()) return;
#pragma unroll
    for (int i = 0; i < kValues; ++i) slots_[0][i][first_ + lane] = slots_[1][i][first_ + lane] = 0;
  }

  __device__ void operator()(float (&v)[kValues]) {
#pragma unroll
    for (float& x : v) x = warp_sum(x);
    if (warps() == 1) return;
    auto& mine = slots_[turn_];
    if (threadIdx.x % 32 == 0) {
#pragma unroll
      for (int i = 0; i < kValues; ++i) mine[i][first_ + threadIdx.x / 32] = v[i];
    }
    sync();
#pragma unroll
    for (int i = 0; i < kValues; ++i) {
      v[i] = 0;
      for (int w = 0; w < warps(); w += 4) {
        const float4 four = *reinterpret_cast<const float4*>(&mine[i][first_ + w]);
        v[i] += (four.x + four.y) + (four.z + four.w);
      }
    }
    turn_ ^= 1;
  }
  __device__ float operator()(float x) {
    static_assert(kValues == 1);
    float v[1] = {x};
    (*this)(v);
    return v[0];
  }

 private:
  __device__ static int warps() { return static_cast<int>(blockDim.x) / 32; }
  __device__ static int whole() { return (warps() + 3) / 4 * 4; }
  __device__ static void sync() {
    if constexpr (kAlone) {
      __syncthreads();
    } else {
      asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.y), "r"(blockDim.x) : "memory");
    }
  }

  Slots& slots_;
  int first_;
  int turn_ = 0;
};

}  // namespace snug::ops
