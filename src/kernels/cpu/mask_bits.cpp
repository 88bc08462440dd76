#include "kernels/cpu/mask_bits.h"

namespace snug::ops {

// The draws are side by side so that the loop vectorises; g++ 12 does so only where the function is
// not inlined (measured: 1.2x on flash).
[[gnu::noinline]] void mask_bits(Key key, uint64_t eight, uint64_t sample, uint16_t* bits) {
  constexpr uint32_t kDraws = kMaskBits / 8;
  uint32_t lanes[4][kDraws];
#pragma omp simd
  for (uint32_t i = 0; i < kDraws; ++i) {
    const auto four = philox_eight(key, eight + i, sample);
    for (size_t lane = 0; lane < 4; ++lane) lanes[lane][i] = four[lane];
  }
  for (size_t i = 0; i < kDraws; ++i) {
    for (size_t lane = 0; lane < 4; ++lane) {
      bits[8 * i + 2 * lane] = static_cast<uint16_t>(lanes[lane][i]);
      bits[8 * i + 2 * lane + 1] = static_cast<uint16_t>(lanes[lane][i] >> 16);
    }
  }
}

}  // namespace snug::ops
