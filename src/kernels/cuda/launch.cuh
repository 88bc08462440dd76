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
#pragma once

#include "kernels/cuda/kernel.cuh"

namespace snug::ops {

// Everything enqueued before this kernel is done and seen by it; the next kernel may start its
// blocks. Every thread of a kernel that launch_after_previous starts calls this: who follows relies
// on this kernel's end only, which then includes the end of all before it.
__device__ inline void after_previous() {
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();
  cudaGridDependencySynchronize();
#endif
}

// Where the kernel's code is Hopper's or newer, and so waits: code for older chips, compiled again
// for this one when it was loaded, does not.
template <typename Kernel>
bool can_launch_early(Kernel* kernel) {
  cudaFuncAttributes facts{};
  cuda::check(cudaFuncGetAttributes(&facts, kernel), "asking for a kernel's code");
  return facts.ptxVersion >= 90;
}

// `kernel` must call after_previous. `shared`: dynamic shared memory, in bytes.
template <typename... Params, typename... Args>
void launch_after_previous(void (*kernel)(Params...), dim3 grid, dim3 block, size_t shared,
                           cudaStream_t stream, const Args&... args) {
  constexpr size_t kAlwaysAllowed = 48 * 1024;
  if (shared > kAlwaysAllowed)
    cuda::check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                     static_cast<int>(shared)),
                "reserving {} bytes of shared memory", shared);
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = can_launch_early(kernel) ? 1 : 0;
  cuda::check(cudaLaunchKernelEx(&config, kernel, args...), "launching a kernel");
}

}  // namespace snug::ops
