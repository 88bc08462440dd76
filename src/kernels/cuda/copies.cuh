// Copies from global to shared memory that a thread starts and waits for later, in batches. A
// thread that copies only what it reads itself needs no barrier.
#pragma once

#include "kernels/cuda/kernel.cuh"

namespace snug::ops {

// An address in shared memory. Held in a register: the compiler would make it anew, from
// the block's number in its cluster, for every copy.
__device__ inline uint32_t shared_address(const void* shared) {
  auto address = static_cast<uint32_t>(__cvta_generic_to_shared(shared));
  asm volatile("" : "+r"(address));
  return address;
}

// Copies 16 or 4 bytes from global to shared memory; seen by this thread after wait_batches.
template <int kBytes>
__device__ void start_copy(uint32_t to, const void* global) {
  static_assert(kBytes == 4 || kBytes == 16);
  if constexpr (kBytes == 16) {  // past L1: no other thread reads it
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(global) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(global) : "memory");
  }
}
// Closes a batch of copies, which may be empty.
__device__ inline void close_batch() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits for all but the last kBatches of this thread's batches.
template <int kBatches>
__device__ void wait_batches() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kBatches) : "memory");
}

}  // namespace snug::ops
