// What a block of an attention kernel works on, and the launch of such blocks.
#pragma once

#include <cstdint>

#include "kernels/cuda/launch.cuh"

namespace snug::ops {

// Tile `tile` of head `h` of sample `b`.
struct TileTask {
  int64_t b, h, tile;

  __device__ TileTask(int64_t heads, int64_t tiles)
      : b(blockIdx.x / (heads * tiles)), h(blockIdx.x / tiles % heads), tile(blockIdx.x % tiles) {}
};

// kernel(args), one block per task.
template <typename Args>
void launch_tasks(void (*kernel)(Args), int64_t tasks, int threads, int64_t bytes,
                  const KernelArgs& a, const Args& args) {
  launch_with_shared(kernel, static_cast<unsigned>(tasks), threads, static_cast<size_t>(bytes),
                     stream_of(a), args);
}

}  // namespace snug::ops
