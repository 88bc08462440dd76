// The activations of some layers in other memory between forward and backward, so that less is
// recomputed.
#pragma once

#include <optional>
#include <vector>

#include "search/policy_cache.h"
#include "search/tried_plan.h"

namespace snug {

class ActivationOffload {
 public:
  ActivationOffload(Estimates& estimates, PolicyCache& policies)
      : estimates_(estimates), policies_(policies) {}

  // Those of every second, third or fourth layer: plans that are faster, the fastest last.
  std::vector<TriedPlan> with_some_moved(const TriedPlan& tried, const Limits& limits) const;

 private:
  std::optional<TriedPlan> with_every_moved(const TriedPlan& tried, int32_t every,
                                            const LayerPolicyCosts& costs,
                                            const Limits& limits) const;

  Estimates& estimates_;
  PolicyCache& policies_;
};

}  // namespace snug
