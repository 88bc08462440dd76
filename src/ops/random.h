// Randomness inside programs: keyed by seed, step, global sample, logical element and the original
// op's stable name, so that recompute, another micro-batch size or another rank draws the same
// numbers.
#pragma once

#include <algorithm>
#include <cmath>

#include "base/rng.h"
#include "ir/attrs.h"
#include "ir/value.h"

namespace snug::ops {

// The device scalars (i64[]) that every random op takes: `sample` is the global index of the
// micro-batch's first sample.
struct Random {
  ValueId seed, step, sample;
};

inline Key op_key(int64_t seed, int64_t step, const Attrs& attrs) {
  return random_key(static_cast<uint64_t>(seed), static_cast<uint64_t>(step),
                    hash_name(attrs.s("key")));
}

// Where a value holds some of the samples' rows, in a row: attributes `first_row`, its first among all
// of the batch's, and `rows`, how many a sample has. Without them dim 0 counts samples.
struct DrawnRows {
  int64_t first = 0;       // element of the batch
  int64_t per_sample = 0;  // elements
  static DrawnRows of(const Shape& shape, const Attrs& attrs) {
    if (!attrs.has("rows")) {
      return {0, shape.rank() == 0 ? 1 : shape.elements() / std::max<int64_t>(shape[0], 1)};
    }
    return {attrs.i("first_row") * shape.back(), attrs.i("rows") * shape.back()};
  }
  // fn(sample of the batch, its first element here, and where that is, how many) for `elements`.
  template <typename Fn>
  void for_samples(int64_t elements, const Fn& fn) const {
    for (int64_t at = 0, n = 0; at < elements; at += n) {
      const int64_t begin = (first + at) % per_sample;
      n = std::min(elements - at, per_sample - begin);
      fn((first + at) / per_sample, begin, at, n);
    }
  }
};

// Dropout keeps an element when its 16 random bits reach the threshold; p counts to the nearest
// 1 / 65536.
inline uint32_t drop_threshold(double p) {
  return std::min(static_cast<uint32_t>(std::lround(p * 65536)), 65535U);
}
// What a kept element is multiplied by: one over the part that is kept.
inline double drop_scale(double p) { return 65536.0 / (65536 - drop_threshold(p)); }
inline bool keeps(Key key, int64_t sample, int64_t element, uint32_t threshold) {
  return sixteen_bits(key, static_cast<uint64_t>(element), static_cast<uint64_t>(sample)) >=
         threshold;
}

}  // namespace snug::ops
