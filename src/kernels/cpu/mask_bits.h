// The bits of dropout's masks, many at a time (base/rng.h has one element's).
//
//   uint16_t bits[kMaskBits];
//   mask_bits(key, element / 8, sample, bits);   // of kMaskBits elements from `element` on
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace snug::ops {

constexpr uint64_t kMaskBits = 128;

// `eight`: the first element's number over 8.
void mask_bits(Key key, uint64_t eight, uint64_t sample, uint16_t* bits);

}  // namespace snug::ops
