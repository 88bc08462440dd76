// Modelled time: an op takes as long as its arithmetic or its traffic, whichever is longer.
//
//   Price p = price_of(module, Backend::cpu, nominal_rates(Backend::cpu));
//   p.step_seconds;   p.repeat_seconds / p.step_seconds   // what recompute costs
#pragma once

#include "ir/op_def.h"
#include "ir/program.h"

namespace snug {

struct Rates {
  double flops_per_s = 0;
  double bytes_per_s = 0;
};

// Round numbers for a device of that kind, good enough to compare programs with each other.
Rates nominal_rates(Backend backend);

// What a device's driver and libraries take beside the arena: by rule, so that a plan made
// elsewhere is the one that runs.
constexpr int64_t context_bytes(Backend backend) {
  return backend == Backend::cuda ? int64_t{640} << 20 : 0;
}

double seconds_of(const Module& module, const Op& op, Backend backend, const Rates& rates);

struct Price {
  double step_seconds = 0;    // all programs, as often as a step runs them
  double repeat_seconds = 0;  // the part that repeats forward ops
};
Price price_of(const Module& module, Backend backend, const Rates& rates);

}  // namespace snug
