// Rows on the device: accesses for rows that do not vectorise, blocks that tile rows, and sums over
// a row that several warps hold.
#pragma once

#include "kernels/cuda/kernel.cuh"

namespace snug::ops {

// One element at a time, with a Vector's interface: for rows of odd width.
template <typename T>
struct Single {
  static constexpr int kSize = 1;
  T v;

  __device__ static Single load(const T* from) { return {*from}; }
  __device__ static Single load_once(const T* from) { return {*from}; }
  __device__ void store(T* to) const { *to = v; }
  __device__ float operator[](int) const { return to_float(v); }
  __device__ void set(int, float x) { v = from_float<T>(x); }
};

// fn(V{}) with the widest access that rows of `columns` elements allow.
template <typename T, typename Fn>
void visit_width(int64_t columns, Fn&& fn) {
  vectorises<T>(columns) ? fn(Vector<T>{}) : fn(Single<T>{});
}

// --- tiles of rows ------------------------------------------------------------------------------

// A row is cut into `tiles` tiles of `threads` threads with kPerThread accesses each, as even as
// its width allows; blocks run along the rows.
struct RowTiles {
  static constexpr int kMostThreads = 256;
  unsigned tiles, threads, blocks;
};

template <int kPerThread>
RowTiles row_tiles(int64_t rows, int64_t accesses) {
  const int64_t tiles = ceil_div(accesses, kPerThread * RowTiles::kMostThreads);
  const int64_t threads = 32 * ceil_div(accesses, tiles * kPerThread * 32);
  return {static_cast<unsigned>(tiles), static_cast<unsigned>(threads),
          static_cast<unsigned>(rows * tiles)};
}

// This thread's accesses of its row: first, first + blockDim.x, ... (kPerThread of them).
struct RowPlace {
  int64_t row, first;
};

template <int kPerThread>
__device__ RowPlace row_place(unsigned tiles) {
  const unsigned block = from_end(blockIdx.x, gridDim.x);
  const unsigned row = block / tiles;
  const unsigned tile = block - row * tiles;
  return {row, int64_t{tile} * kPerThread * blockDim.x + threadIdx.x};
}

// fn(k, element) for the accesses of one tile that lie inside the row: access k starts there. Loads
// go into arrays by k, all of them before the first use, so that they are in flight together.
template <typename V, int kPerThread, typename Fn>
__device__ void for_tile_vectors(int64_t first, int64_t accesses, const Fn& fn) {
#pragma unroll
  for (int k = 0; k < kPerThread; ++k) {
    const int64_t at = first + k * int64_t{blockDim.x};
    if (at < accesses) fn(k, at * V::kSize);
  }
}

// fn(V{}, first element, accesses) for the part of a flat array that vectorises, then for the rest.
template <typename T, typename Fn>
void for_spans(int64_t elements, const Fn& fn) {
  const int64_t whole = elements / Vector<T>::kSize;
  const int64_t from = whole * Vector<T>::kSize;
  if (whole > 0) fn(Vector<T>{}, 0, whole);
  if (from < elements) fn(Single<T>{}, from, elements - from);
}

// --- rows in registers --------------------------------------------------------------------------

// A block of row groups: kWarps warps hold one row, and groups never wait for each other. One block
// fills a multiprocessor's registers at 128 to a thread.
template <int kWarps>
struct RowGroup {
  static constexpr int kThreads = 32 * kWarps;
  static constexpr int kBlock = 512;
  static constexpr int kGroups = kBlock / kThreads;

  __device__ static int group() { return static_cast<int>(threadIdx.x) / kThreads; }
  __device__ static int lane() { return static_cast<int>(threadIdx.x) % kThreads; }

  __device__ static void sync() {
    static_assert(kGroups <= 8, "barrier 0 is the block's, and a single warp needs none");
    if constexpr (kGroups == 1) {
      __syncthreads();
    } else {
      asm volatile("bar.sync %0, %1;" ::"r"(1 + group()), "n"(kThreads) : "memory");
    }
  }

  // Rows are dealt to blocks one by one, so that all have as many to the last.
  __device__ static int64_t first_row() { return int64_t{group()} * gridDim.x + blockIdx.x; }
  __device__ static int64_t row_step() { return int64_t{gridDim.x} * kGroups; }
};

// Sums over a row group, in a fixed order. Slots alternate, so that one barrier per sum is enough:
// a thread that writes a slot again has passed the barrier of the sum between.
template <int kWarps>
class RowSum {
 public:
  template <int kValues>
  __device__ void operator()(float (&v)[kValues]) {
#pragma unroll
    for (float& x : v) x = warp_sum(x);
    if constexpr (kWarps > 1) {
      using Group = RowGroup<kWarps>;
      __shared__ float slots[2][Group::kGroups][kWarps][kValues];
      auto& mine = slots[turn_][Group::group()];
      if (Group::lane() % 32 == 0) {
#pragma unroll
        for (int i = 0; i < kValues; ++i) mine[Group::lane() / 32][i] = v[i];
      }
      Group::sync();
#pragma unroll
      for (int i = 0; i < kValues; ++i) {
        v[i] = mine[0][i];
#pragma unroll
        for (int w = 1; w < kWarps; ++w) v[i] += mine[w][i];
      }
      turn_ ^= 1;
    }
  }
  __device__ float operator()(float x) {
    float v[1] = {x};
    (*this)(v);
    return v[0];
  }

 private:
  int turn_ = 0;
};

// fn(std::integral_constant<int, warps>) for the powers of two up to 16.
template <typename Fn>
void visit_row_warps(int warps, Fn&& fn) {
  if (warps == 1) return fn(std::integral_constant<int, 1>{});
  if (warps == 2) return fn(std::integral_constant<int, 2>{});
  if (warps == 4) return fn(std::integral_constant<int, 4>{});
  if (warps == 8) return fn(std::integral_constant<int, 8>{});
  if (warps == 16) return fn(std::integral_constant<int, 16>{});
  throw internal_error("no kernel holds a row in {} warps", warps);
}

}  // namespace snug::ops
