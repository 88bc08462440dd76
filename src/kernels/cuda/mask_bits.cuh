// The bits of dropout's masks on the device (base/rng.h says what they are).
#pragma once

#include "base/rng.h"

namespace snug::ops {

// The draws of eight neighbours, and which of them reach a threshold.
struct MaskBits {
  std::array<uint32_t, 4> words;

  __device__ MaskBits(Key key, uint64_t eight, uint64_t sample)
      : words(philox_eight(key, eight, sample)) {}

  // `element` is known when this is compiled, or it would need memory.
  __device__ bool keeps(int element, uint32_t threshold) const {
    const uint32_t word = words[element / 2];
    return (element % 2 == 0 ? word << 16 : word) >= threshold << 16;
  }
  // Bit l: does element l reach it?
  __device__ uint32_t kept(uint32_t threshold) const {
    uint32_t bits = 0;
#pragma unroll
    for (int l = 0; l < 8; ++l) bits |= keeps(l, threshold) ? 1U << l : 0U;
    return bits;
  }
};

}  // namespace snug::ops
