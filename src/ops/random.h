// Randomness inside programs: keyed by seed, step, global sample, logical element and the original
// op's stable name, so that recompute, another micro-batch size or another rank draws the same
// numbers.
#pragma once

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

// Dropout keeps an element when its 32 random bits reach the threshold. Element e of global sample
// s draws lane e % 4 of philox(key, e / 4, s).
inline uint32_t drop_threshold(double p) { return static_cast<uint32_t>(p * 4294967296.0); }
inline bool keeps(Key key, int64_t sample, int64_t element, uint32_t threshold) {
  const auto e = static_cast<uint64_t>(element);
  return philox(key, e / 4, static_cast<uint64_t>(sample))[e % 4] >= threshold;
}

}  // namespace snug::ops
