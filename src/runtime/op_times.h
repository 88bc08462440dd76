// How long each op of a program takes where it stands, and those bound by arithmetic alone.
//
//   executor.run_step(feed);                       // real data, warm caches, sustained clocks
//   for (const OpTime& t : time_ops(executor, "micro_next")) ...
#pragma once

#include <string_view>
#include <vector>

#include "runtime/executor.h"

namespace snug {

struct OpTime {
  double ms = 0;  // in its place in the program; median of several runs
  // The same op launched again and again at its place, median; 0 for ops that are bound by memory.
  double alone_ms = 0;
};

// Is the op bound by arithmetic (a product, attention) rather than by its bytes?
bool is_arithmetic(const Cost& cost);

// One per op of the program. Values are as after running the program several times: good for
// nothing but timing.
std::vector<OpTime> time_ops(Executor& executor, std::string_view name);

}  // namespace snug
