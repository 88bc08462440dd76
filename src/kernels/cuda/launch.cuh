// A launch that overlaps the end of the kernel before it (programmatic dependent launch): blocks
// start as soon as all of that kernel's blocks have started and there is room, and wait on the
// device for its results. Inside a graph too. Where one kernel is a few microseconds of work, the
// gap between two is a good part of it.
//
//   __global__ void scale(const float* x, float* y) {
//     after_previous();   // first of all: before it nothing may touch global memory
//     ...
//   }
//   launch_after_previous(scale, blocks, 256, 0, stream_of(a), x, y);
//
// And one for kernels with dynamic shared memory, which <<<...>>> does not check against the device.
#pragma once

#include "kernels/cuda/kernel.cuh"
#include "kernels/cuda/shared_memory.h"

namespace snug::ops {

// Everything enqueued before this kernel is done and seen by it; the next kernel may start its
// blocks. Every thread of a kernel that launch_after_previous starts calls this: the next relies
// on this kernel's end only, which then includes the end of all before it.
__device__ inline void after_previous() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

// Where the device can, and the kernel's code is Hopper's or newer, and so waits: code for older
// chips, compiled again for this one when it was loaded, does not.
template <typename Kernel>
bool can_launch_early(Kernel* kernel) {
  if (!device_facts().early_launches) return false;
  cudaFuncAttributes facts{};
  cuda::check(cudaFuncGetAttributes(&facts, kernel), "asking for a kernel's code");
  return facts.ptxVersion >= 90;
}

// Both launches below. `shared`: dynamic shared memory, in bytes; a launch that asks for more than
// the device has throws.
template <typename... Params, typename... Args>
void launch_kernel(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared,
                   cudaStream_t stream, bool early, const Args&... args) {
  if (shared > 0) allow_shared(kernel, static_cast<int64_t>(shared));
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  attribute.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = early ? 1 : 0;
  cuda::check(cudaLaunchKernelEx(&config, kernel, args...), "launching a kernel");
}

// `kernel` must call after_previous.
template <typename... Params, typename... Args>
void launch_after_previous(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared,
                           cudaStream_t stream, const Args&... args) {
  launch_kernel(kernel, grid, block, shared, stream, can_launch_early(kernel), args...);
}

// When all before it is done: for kernels that do not call after_previous.
template <typename... Params, typename... Args>
void launch_with_shared(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared,
                        cudaStream_t stream, const Args&... args) {
  launch_kernel(kernel, grid, block, shared, stream, /*early=*/false, args...);
}

}  // namespace snug::ops
