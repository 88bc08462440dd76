// The largest whole number whose need stays inside a limit, by bracketing: each query is a plan.
//
//   Largest answer = find_largest({.start = 8, .limit = 1024, .bytes = limits}, need_of_batch);
//   answer.n;   answer.need;   answer.next_need   // what n + 1 would take
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "ir/space_bytes.h"

namespace snug {

struct LargestQuestion {
  int64_t start = 1;  // asked first
  int64_t limit = 1;  // the answer is not above this
  Limits bytes = on_device(0);
  double power = 1;  // the need grows about like n to this power: how guesses are made
};

struct Largest {
  int64_t n = 0;                        // 0: not even 1 fits
  SpaceBytes need;                      // of n
  std::optional<SpaceBytes> next_need;  // of n + 1; none: n is the limit
};

// `need` does not fall in any space as n grows. What is said of n and n + 1 was asked, never guessed.
Largest find_largest(const LargestQuestion& question,
                     const std::function<SpaceBytes(int64_t)>& need);

}  // namespace snug
