// What else was considered, and why it was not chosen.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "search/offload_search.h"

namespace snug {

struct RunnerUp {
  std::string name;  // the flags that it takes: "--batch 4 --accum 4 --attention standard"
  Effect effect = Effect::exact;
  // On the device: of its fastest plan inside the budget; where there is none, its smallest.
  int64_t bytes = 0;
  double seconds = 0;  // of a step of that plan, modelled
  std::string why;     // "4.2 % slower", "needs 3.10 GiB more than the budget ..."
};

// The given variants that differ in one thing from the one with these picks, whose step takes so many
// seconds; the fastest first.
std::vector<RunnerUp> runners_up(const std::vector<int>& picks, double seconds,
                                 const Limits& limits, Candidates& all, OffloadSearch& offload);

// "3.10 GiB more than the budget", "1.00 GiB more host memory than the budget": of the space that is
// missed by most.
std::string excess_text(const SpaceBytes& bytes, const Limits& limits);

}  // namespace snug
