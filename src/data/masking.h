// Masked-language targets, for models that see the whole sequence: of each row a fixed number of
// tokens is replaced by the mask token and is to be guessed; every other target does not count. A
// fixed number, so that a step's count of targets is known before its first backward.
//
//   Masking masking{.mask = 103, .key = random_key(seed, 0, hash_name("masking"))};
//   masking.apply(first_sample, T, tokens, targets);   // int32[B,T] each
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "base/rng.h"

namespace snug {

struct Masking {
  int32_t mask = 0;
  Key key = 0;

  // 15% of T, and at least one.
  static int64_t per_row(int64_t T) { return std::max<int64_t>(1, (15 * T + 50) / 100); }

  // Overwrites targets. Which positions of a sample are masked depends on its number alone.
  void apply(int64_t first_sample, int64_t T, std::span<int32_t> tokens,
             std::span<int32_t> targets) const;
};

}  // namespace snug
