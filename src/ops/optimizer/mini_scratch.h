// The scratch of adam_mini on CUDA. Columns are summed in slices of rows, for enough threads to
// have work.
#pragma once

#include <cstddef>

#include "base/units.h"
#include "ops/optimizer/parts.h"

namespace snug::ops {

struct MiniScratch {
  static constexpr int64_t kSliceRows = 128;
  int64_t slices;
  double* sums;     // [slices, outputs]: squares of the gradient
  float* divisors;  // [outputs]

  MiniScratch(const Outputs& outputs, std::byte* at)
      : slices(slices_of(outputs)),
        sums(reinterpret_cast<double*>(at)),
        divisors(reinterpret_cast<float*>(sums + slices * outputs.count)) {}

  static int64_t slices_of(const Outputs& outputs) {
    return outputs.columns ? ceil_div(outputs.each, kSliceRows) : 1;
  }
  static int64_t bytes(const Outputs& outputs) {
    constexpr int64_t kSum = sizeof(double), kDivisor = sizeof(float);
    return outputs.count * (slices_of(outputs) * kSum + kDivisor);
  }
};

}  // namespace snug::ops
