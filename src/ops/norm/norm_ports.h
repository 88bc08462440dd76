// The ports of the norms' forms.
#pragma once

#include <cstddef>
#include <cstdint>

namespace snug::ops {

// Where the residual form's ports differ from the plain form's.
template <bool kResidual>
struct NormPorts {
  static constexpr size_t x = 0, delta = 1, weight = kResidual ? 2 : 1;
  static constexpr size_t h = 0, y = kResidual ? 1 : 0;
};

// kCentered: layer_norm, which has a mean and a bias. `bias` and `y` exist where y is recomputed.
template <bool kCentered>
struct NormGradPorts {
  static constexpr size_t x = 0, weight = 1, mean = 2, rstd = kCentered ? 3 : 2;
  static constexpr size_t dy = rstd + 1, dx_sum = rstd + 2, dweight_sum = rstd + 3,
                          dbias_sum = rstd + 4, bias = rstd + 5;
  static constexpr size_t dx = 0, dweight = 1, dbias = 2, y = kCentered ? 3 : 2;
  static constexpr int64_t params = kCentered ? 2 : 1;
};

}  // namespace snug::ops
