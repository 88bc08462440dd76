#include "plan/price.h"

#include "plan/account.h"

namespace snug {

Price price_of(const Module& module, const CostModel& model) {
  Price price;
  for (const Program& program : module.programs) {
    const auto runs = static_cast<double>(runs_per_step(module, program.name));
    if (runs == 0) continue;
    for (const Op& op : program.ops) {
      const double seconds = runs * model.seconds(module, op);
      price.step_seconds += seconds;
      if (!op.clone_of.empty()) price.repeat_seconds += seconds;
    }
  }
  return price;
}

}  // namespace snug
