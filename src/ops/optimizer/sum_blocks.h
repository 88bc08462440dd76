// How the gradient norm is added up, with the same bits on every backend and any number of threads.
//
// sum_squares: a gradient is cut into blocks of kSumBlock elements, and each block has a sum of its
// own, which depends on nothing but the block's elements and their type. The square of a block's
// element i is added to slot i % slots, where the slots are those of 256 vectors of 16 bytes; the
// slots of a vector are added in order, and the vectors as threads.
//
// clip: block i of all gradients, in the order of the ports, is added to slot i % kClipSlots; the
// slots are added as threads. Where a gradient was cut, at multiples of kSumBlock, makes no
// difference, nor where its parts are.
//
// As threads: each 32 by halves (i and i + 16, then i + 8, ...), then those sums in order. That is
// block_sum's order on CUDA.
#pragma once

#include "base/units.h"

namespace snug::ops {

// Ranks cut parameters at these, so that a norm has the same bits however many there are. The sums
// are a thousandth of a byte for each element: 68 MiB of a 70B model.
constexpr int64_t kSumBlock = 8192;
constexpr int64_t sum_blocks(int64_t elements) { return ceil_div(elements, kSumBlock); }

constexpr int kSumVectors = 256;
constexpr int kClipSlots = 1024;

}  // namespace snug::ops
