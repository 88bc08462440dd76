// Copies from global to shared memory that a thread starts and waits for later, in batches. A
// thread that copies only what it reads itself needs no barrier.
#pragma once

#include "ops/cuda/kernel.cuh"

namespace snug::ops {

// 16 bytes, past L1: nobody else reads them. Seen by this thread after wait_copies.
__device__ inline void start_copy16(void* shared, const void* global) {
  const auto to = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
}

// Closes a batch of copies, which may be empty.
__device__ inline void close_batch() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for all but the last kBatches of this thread's batches.
template <int kBatches>
__device__ void wait_batches() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kBatches) : "memory");
}

}  // namespace snug::ops
