// What a block of an attention kernel works on.
#pragma once

#include <cstdint>

namespace snug::ops {

// Tile `tile` of head `h` of sample `b`.
struct TileTask {
  int64_t b, h, tile;

  __device__ TileTask(int64_t heads, int64_t tiles)
      : b(blockIdx.x / (heads * tiles)), h(blockIdx.x / tiles % heads), tile(blockIdx.x % tiles) {}
};

}  // namespace snug::ops
