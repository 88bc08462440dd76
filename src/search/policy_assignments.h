// What may be recomputed between the ends of a model, the cheapest first.
//
// The policies for a layer are costed on compiled programs (layer_policy_costs.h) and combined by
// dynamic programming into a Pareto frontier of bytes and time that knows no budget
// (pareto_frontier.h); the uniform policies join it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "search/layer_policy_costs.h"

namespace snug {

struct PolicyAssignment {
  ParetoPoint point;                            // what the measured policies say of it
  std::optional<RecomputePolicy> uniform = {};  // else the point's own
  int64_t doubt = 0;                            // it may turn out to need so many bytes less
};

class PolicyAssignments {
 public:
  PolicyAssignments(std::shared_ptr<const LayerPolicyCosts> options, const Costs& before,
                    const Costs& after);

  const std::vector<PolicyAssignment>& all() const { return assignments_; }  // by rising seconds
  RecomputePolicy policy_of(const PolicyAssignment& assignment) const;

 private:
  void add_uniform(const RecomputePolicy& policy);

  std::shared_ptr<const LayerPolicyCosts> options_;
  LayerPolicies layers_;
  std::vector<PolicyAssignment> assignments_;
};

}  // namespace snug
