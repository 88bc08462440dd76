// Weights as a frozen model stores them (Stored): floats to codes or to scales, on the host, where
// they are read or drawn.
//
//   store_floats(Stored::nf4_codes, block, bytes);   // two codes a byte
#pragma once

#include <cstddef>
#include <functional>
#include <span>

#include "ops/quantize/format.h"

namespace snug::ops {

// Whole blocks of finite numbers; only the last of a weight may be shorter. Uses all threads.
void store_floats(Stored stored, std::span<const float> x, std::span<std::byte> out);
// All of `out`, some blocks at a time, of the floats that `next` fills in.
void store_next(Stored stored, std::span<std::byte> out,
                const std::function<void(std::span<float>)>& next);

}  // namespace snug::ops
