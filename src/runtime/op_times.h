// How long each op of a program takes at its place, and those bound by arithmetic alone.
//
//   executor.run_step(feed);                       // real data, warm caches, sustained clocks
//   for (const OpTime& t : time_ops(executor, "micro_next")) ...
//   std::vector<double> ms = ms_within_program(executor, "update");   // they add up to a run of it
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/executor.h"

namespace snug {

struct OpTime {
  double ms = 0;  // in its place in the program; median of several runs
  // The same op launched again and again at its place, median; 0 for ops that are bound by memory.
  double alone_ms = 0;
};

// In all of these values are as after running the program several times: for timing only. Ops that
// the executor hands to their kernel together share that time by their bytes.

// One per op of the program.
std::vector<OpTime> time_ops(Executor& executor, std::string_view name);

// How often a program is run to be timed: until so many seconds have passed, within these bounds.
struct TimingEffort {
  size_t least = 3, most = 7;
  double seconds = 1;
};

// One per op, such that they add up to what the program takes when it runs as in training.
std::vector<double> ms_within_program(Executor& executor, std::string_view name,
                                      const TimingEffort& effort = {});

// The programs of a step with how often each runs.
std::vector<std::pair<std::string, int64_t>> programs_of_step(const Module& module);

}  // namespace snug
