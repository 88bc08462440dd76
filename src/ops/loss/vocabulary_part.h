// What kernels of vocabulary_loss share: whose words are where, and what all ranks' statistics say.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "ir/op_def.h"

namespace snug::ops {

// A row's target among the words of this rank; that of another rank is beyond any of them.
constexpr int32_t kNoTarget = -1, kOtherRank = std::numeric_limits<int32_t>::max();

struct WordsHere {
  int64_t first = 0;
  int64_t count = 0;  // of the weight's rows, those that are words
  int64_t words = 0;  // of all ranks

  static WordsHere of(const Attrs& attrs, int64_t rows) {
    const int64_t first = attrs.i("first"), words = attrs.i("words");
    return {first, std::clamp<int64_t>(words - first, 0, rows), words};
  }
  constexpr int32_t target(int32_t target) const {
    if (target < 0) return kNoTarget;
    return target >= first && target < first + count ? static_cast<int32_t>(target - first)
                                                     : kOtherRank;
  }
  // What the first rank counts for a target beyond all words, so that bad data is loud; else nothing.
  constexpr float no_word(int32_t target) const {
    return first == 0 && target >= words ? std::numeric_limits<float>::quiet_NaN() : 0.0F;
  }
};

// A rank without words: finite, so that differences are numbers.
constexpr float kNoWords = -1e30F;

struct AllWords {
  double lse = 0, target = 0;
};
// Of row r, from the statistics of all ranks, in their order.
template <typename T>
constexpr AllWords all_words(const T* stats, int64_t ranks, int64_t rows, int64_t r) {
  double max = static_cast<double>(kNoWords), sum = 0, target = 0;
  for (int64_t k = 0; k < ranks; ++k) {
    const auto lse = static_cast<double>(stats[2 * (k * rows + r)]);
    if (!(lse <= max)) max = lse;  // a nan, too
  }
  for (int64_t k = 0; k < ranks; ++k) {
    sum += exp(static_cast<double>(stats[2 * (k * rows + r)]) - max);
    target += static_cast<double>(stats[2 * (k * rows + r) + 1]);
  }
  return {max + log(sum), target};
}

}  // namespace snug::ops
