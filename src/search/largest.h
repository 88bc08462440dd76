// The largest whole number whose need stays inside a limit, in few questions: each is a plan.
//
//   Largest answer = find_largest({.start = 8, .limit = 1024, .bytes = budget}, need_of_batch);
//   answer.n;   answer.need;   answer.next_need   // what n + 1 would take
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace snug {

struct LargestQuestion {
  int64_t start = 1;  // asked first
  int64_t limit = 1;  // the answer is not above this
  int64_t bytes = 0;
  double power = 1;  // the need grows about like n to this power: how guesses are made
};

struct Largest {
  int64_t n = 0;                     // 0: not even 1 fits
  int64_t need = 0;                  // of n
  std::optional<int64_t> next_need;  // of n + 1; none: n is the limit
};

// `need` does not fall as n grows. What is said of n and n + 1 was asked, never guessed.
Largest find_largest(const LargestQuestion& question, const std::function<int64_t(int64_t)>& need);

}  // namespace snug
