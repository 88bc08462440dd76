// The blocks that sum_squares adds up one by one on every backend: fixed, so that neither the sum
// nor the scratch depends on threads; 64 Ki elements keep the scratch of a 70B model at 9 MiB.
#pragma once

#include "base/units.h"

namespace snug::ops {

constexpr int64_t kSumBlock = 65536;

constexpr int64_t sum_blocks(int64_t elements) { return ceil_div(elements, kSumBlock); }

}  // namespace snug::ops
