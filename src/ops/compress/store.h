// Weights as a frozen model stores them (Stored): floats to codes or to scales, on the host, where
// they are read or drawn.
//
//   store_floats(Stored::nf4_codes, block, bytes);   // two codes a byte
#pragma once

#include <cstddef>
#include <span>

#include "ir/value.h"

namespace snug::ops {

int64_t elements_per_scale(Stored stored);
int64_t stored_bytes(Stored stored, int64_t elements);
int64_t stored_elements(Stored stored, int64_t bytes);

// Whole blocks of finite numbers; only the last of a weight may be shorter. Uses all threads.
void store_floats(Stored stored, std::span<const float> x, std::span<std::byte> out);

}  // namespace snug::ops
