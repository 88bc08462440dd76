#include "ops/loss/loss_rows_on_chip.h"

#include "kernels/cuda/copies.cuh"
#include "kernels/cuda/launch.cuh"
#include "ops/loss/loss_rows.cuh"

namespace snug::ops {
namespace {

constexpr int kThreads = 1024, kWarps = kThreads / 32;
constexpr int kHeld = 5;     // vectors of a row in a thread's registers, of its 64
constexpr int kStaged = 14;  // those after them, in shared memory: 16 KiB each for all threads

extern __shared__ uint4 stages[];

// A thread's vectors of the row at hand: threadIdx.x (mod kThreads). The thread copies, reads and
// replaces its own, so that only the sums over a row need a barrier.
template <typename T>
struct RowOnChip {
  static constexpr int N = Vector<T>::kSize;
  using Logits = Vector<T, N>;

  int vectors;        // of the row
  uint4 held[kHeld];  // as they come: logits of their own would be taken apart on arrival

  __device__ static int held_at(int k) { return k * kThreads + static_cast<int>(threadIdx.x); }
  __device__ static int staged_at(int k) { return held_at(kHeld + k); }
  __device__ static uint4& staged(int k) { return stages[held_at(k)]; }
  __device__ static uint4 load(const T* from) { return *reinterpret_cast<const uint4*>(from); }
  __device__ static Logits logits(uint4 raw) { return *reinterpret_cast<const Logits*>(&raw); }

  __device__ void start(const T* row) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (held_at(k) < vectors) held[k] = load(row + held_at(k) * N);
    }
    for (int k = 0; k < kStaged; ++k) {
      if (staged_at(k) < vectors)
        start_copy<16>(shared_address(&staged(k)), row + staged_at(k) * N);
      close_batch();
    }
  }

  template <typename Fn>
  __device__ void for_held(const Fn& fn) const {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      if (held_at(k) < vectors) fn(logits(held[k]));
    }
  }

  // A stage's copy is the kStaged-th batch from the end when it is waited for: start and replace
  // close one batch per stage, and here an empty one follows each.
  template <typename Fn>
  __device__ void for_staged(const Fn& fn) const {
#pragma unroll 2
    for (int k = 0; k < kStaged; ++k) {
      wait_batches<kStaged - 1>();
      if (staged_at(k) < vectors) fn(logits(staged(k)));
      close_batch();
    }
  }

  // Writes fn(index, vector) in place of every vector and starts to read `next`, if there is one,
  // into the room of each.
  template <typename Fn>
  __device__ void replace(T* row, const T* next, const Fn& fn) {
#pragma unroll
    for (int k = 0; k < kHeld; ++k) {
      const int i = held_at(k);
      if (i >= vectors) continue;
      fn(i, logits(held[k])).store(row + i * N);
      if (next != nullptr) held[k] = load(next + i * N);
    }
#pragma unroll 2
    for (int k = 0; k < kStaged; ++k) {
      const int i = staged_at(k);
      if (i < vectors) {
        fn(i, logits(staged(k))).store(row + i * N);
        if (next != nullptr) start_copy<16>(shared_address(&staged(k)), next + i * N);
      }
      close_batch();
    }
  }
};

// Every thread of the warp gets the sum of all, over the largest maximum. A thread that has seen
// nothing adds nothing: where its warp has not either, exp(max - max) of that maximum is no number.
template <typename T>
__device__ OnlineSum<T> merge_warp(const OnlineSum<T>& mine) {
  const float max = warp_max(mine.max);
  return {max, warp_sum(mine.sum == 0 ? 0 : mine.sum * ExpFrom<T>(max)(mine.max))};
}

// Every thread of the block gets the sum of all. `turn` alternates between 0 and 1: no
// thread writes where others may still read, with one barrier per call.
template <typename T>
__device__ OnlineSum<T> merge_block(const OnlineSum<T>& mine, int turn) {
  static_assert(kWarps == 32);  // a lane reads what a warp has written
  __shared__ float2 of_warps[2][kWarps];
  const OnlineSum<T> of_warp = merge_warp(mine);
  if (threadIdx.x % 32 == 0) of_warps[turn][threadIdx.x / 32] = {of_warp.max, of_warp.sum};
  __syncthreads();
  const float2 other = of_warps[turn][threadIdx.x % 32];
  return merge_warp(OnlineSum<T>{other.x, other.y});
}

// Of this thread's logits. The warp begins with the largest of what it holds: a larger one, for
// which the sum must be scaled, is rare from there on.
template <typename T>
__device__ OnlineSum<T> sum_row(const RowOnChip<T>& at_hand) {
  using Logits = typename RowOnChip<T>::Logits;
  OnlineSum<T> seen;
  at_hand.for_held([&](const Logits& logits) { seen.max = fmaxf(seen.max, largest_of(logits)); });
  seen.max = warp_max(seen.max);
  at_hand.for_held([&](const Logits& logits) { seen.add(logits); });
  at_hand.for_staged([&](const Logits& logits) { seen.add(logits); });
  return seen;
}

// Blocks begin one after another, as fast as memory delivers their first rows. Beginning together
// they would continue together, all summing while memory rests and all writing when it is short.
__device__ void wait_for_turn(int64_t row_bytes) {
  constexpr int64_t kBytesPerNs = 4096;
  __nanosleep(static_cast<unsigned>(blockIdx.x * row_bytes / kBytesPerNs));
}

// One block per multiprocessor takes every gridDim.x-th row.
template <typename T>
__global__ void __launch_bounds__(kThreads, 1) consume_rows_on_chip(LossRows p) {
  constexpr int N = RowOnChip<T>::N;
  using Logits = Vector<T, N>;
  T* row = static_cast<T*>(p.logits) + blockIdx.x * p.stride;
  RowOnChip<T> at_hand{.vectors = static_cast<int>(ceil_div(p.V, N))};
  wait_for_turn(p.V * static_cast<int64_t>(sizeof(T)));
  at_hand.start(row);
  const float dloss = *p.dloss;
  int turn = 0;
  for (int64_t r = blockIdx.x; r < p.rows; r += gridDim.x) {
    const T* next = r + gridDim.x < p.rows ? row + gridDim.x * p.stride : nullptr;
    const int32_t target = p.targets[r];
    const OnlineSum<T> mine = sum_row(at_hand);
    // Before the barrier, after which logits are overwritten.
    const bool reads = threadIdx.x == 0 && target >= 0;
    const float target_logit = reads ? logit_of_target(row, target, p.V) : 0.0F;
    const OnlineSum<T> all = merge_block(mine, turn);
    if (target >= 0) {
      if (threadIdx.x == 0) write_loss(p, r, all.max, all.sum, target_logit);
      const RowGradient<T> gradient{ExpFrom<T>(all.max), dloss / all.sum, dloss, target};
      at_hand.replace(row, next,
                      [&](int i, const Logits& logits) { return gradient.of(logits, i); });
    } else {
      if (threadIdx.x == 0) write_no_loss(p, r);
      at_hand.replace(row, next, [](int, const Logits&) { return zeros<T, N>(); });
    }
    row += gridDim.x * p.stride;
    turn ^= 1;
  }
}

// Bytes of shared memory that a row takes in addition to the vectors that threads hold.
int64_t staged_bytes(const LossRows& p) {
  const int64_t vectors = ceil_div(p.V * size_of(p.dtype), 16);
  return std::max<int64_t>(0, ceil_div(vectors, kThreads) - kHeld) * kThreads * 16;
}

// Of all stages, or of as many as the device has shared memory for.
template <typename T>
int64_t most_staged_bytes() {
  static const int64_t bytes =
      std::min(int64_t{kStaged} * kThreads * 16, most_dynamic_shared(consume_rows_on_chip<T>));
  return bytes;
}

}  // namespace

bool fit_on_chip(const LossRows& p) {
  if (p.stride * size_of(p.dtype) % 16 != 0 || !aligned(p.logits)) return false;
  return visit_device_float(
      p.dtype, [&](auto zero) { return staged_bytes(p) <= most_staged_bytes<decltype(zero)>(); });
}

void loss_and_gradient_on_chip(const LossRows& p, void* stream) {
  const int64_t blocks = std::min<int64_t>(p.rows, multiprocessors());
  visit_device_float(p.dtype, [&](auto zero) {
    launch_with_shared(consume_rows_on_chip<decltype(zero)>, static_cast<unsigned>(blocks),
                       kThreads, static_cast<size_t>(staged_bytes(p)),
                       static_cast<cudaStream_t>(stream), p);
  });
}

}  // namespace snug::ops
