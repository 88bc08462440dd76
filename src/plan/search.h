// The fastest plan inside a budget, over everything that was left open.
#pragma once

#include <cstdint>
#include <string>

namespace snug {

// What a choice does to the numbers of a run.
enum class Effect : uint8_t { exact, rounding, learning };

// What else was considered, and why it lost.
struct RunnerUp {
  std::string name;  // the flags that it takes: "--batch 4 --accum 4 --attention standard"
  Effect effect = Effect::exact;
  int64_t bytes = 0;   // of its fastest plan inside the budget; where there is none, its smallest
  double seconds = 0;  // of a step of that plan, modelled
  std::string why;     // "4.2% slower", "needs 3.10 GiB more than the budget ..."
};

}  // namespace snug
