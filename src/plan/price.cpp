#include "plan/price.h"

#include <algorithm>

#include "plan/account.h"

namespace snug {

// A desktop processor with eight cores; a data-centre GPU, in 16 bits, at what it sustains. What
// matters to a choice between programs is their ratio: flops per byte.
Rates nominal_rates(Backend backend) {
  switch (backend) {
    case Backend::cpu:
      return {.flops_per_s = 500e9, .bytes_per_s = 40e9};
    case Backend::cuda:
      return {.flops_per_s = 400e12, .bytes_per_s = 2.5e12};
  }
  throw internal_error("backend {} has no rates", static_cast<int>(backend));
}

double seconds_of(const Module& module, const Op& op, Backend backend, const Rates& rates) {
  const Cost cost = cost_of(module, op, backend);
  const double bytes =
      static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written);
  return std::max(static_cast<double>(cost.flops) / rates.flops_per_s, bytes / rates.bytes_per_s);
}

Price price_of(const Module& module, Backend backend, const Rates& rates) {
  Price price;
  for (const Program& program : module.programs) {
    const auto runs = static_cast<double>(runs_per_step(module, program.name));
    if (runs == 0) continue;
    for (const Op& op : program.ops) {
      const double seconds = runs * seconds_of(module, op, backend, rates);
      price.step_seconds += seconds;
      if (!op.clone_of.empty()) price.repeat_seconds += seconds;
    }
  }
  return price;
}

}  // namespace snug
