// How a block becomes int8: the one rule that the kernels and the reference share, so that both
// round every tie the same way.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

namespace snug::ops {

constexpr float kInt8Levels = 127;

struct Int8Scale {
  float scale;    // payload -> value
  float inverse;  // value -> payload; 0: the block holds only zeros, or something not finite

  static constexpr Int8Scale of(float absmax) {
    constexpr float kSmallest = 0x1p-100F;  // below it the inverse would not be finite
    const bool usable = absmax >= kSmallest && absmax <= std::numeric_limits<float>::max();
    if (!usable) return {absmax * 0, 0};  // 0, or NaN where absmax is not finite
    return {absmax / kInt8Levels, kInt8Levels / absmax};
  }

  // To nearest, ties to even. |x| <= absmax, so the result is within +-127.
  int8_t quantize(float x) const { return static_cast<int8_t>(std::nearbyint(x * inverse)); }
};

}  // namespace snug::ops
