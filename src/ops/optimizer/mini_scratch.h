// The scratch of adam_mini, and how its squares are added up, with the same bits on every backend.
//
// A row has a team, of 32 or 256 threads. The square of its element i is added to slot i % slots,
// where the slots are those of the team's vectors of 16 bytes; the slots of a vector are added in
// order, and the vectors as threads (sum_blocks.h).
//
// A column is summed in slices of rows, for enough threads to have work. Of a slice, every eighth
// row is added to one sum, and the eight in order.
//
// A part's outputs have a team as well: output o of every slice is added to its thread o % team.
#pragma once

#include <cstddef>

#include "base/units.h"
#include "ops/optimizer/parts.h"

namespace snug::ops {

struct MiniScratch {
  static constexpr int kBlockTeam = 256;
  static constexpr int64_t kSliceRows = 128;
  static constexpr int kRowsAtOnce = 8;
  int64_t slices;
  double* sums;     // [slices, outputs]: squares of the gradient
  float* divisors;  // [outputs]

  MiniScratch(const Outputs& outputs, std::byte* at)
      : slices(slices_of(outputs)),
        sums(reinterpret_cast<double*>(at)),
        divisors(reinterpret_cast<float*>(sums + slices * outputs.count)) {}

  // Of `n` numbers.
  static constexpr int team_of(int64_t n) {
    constexpr int64_t kLong = 1024;
    return n >= kLong ? kBlockTeam : 32;
  }
  static int64_t slices_of(const Outputs& outputs) {
    return outputs.columns ? ceil_div(outputs.each, kSliceRows) : 1;
  }
  static int64_t bytes(const Outputs& outputs) {
    constexpr int64_t kSum = sizeof(double), kDivisor = sizeof(float);
    return outputs.count * (slices_of(outputs) * kSum + kDivisor);
  }
};

}  // namespace snug::ops
