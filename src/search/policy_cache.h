// What policies cost by layer, and what a search makes of them: shared by all variants that agree in
// what they depend on. Several threads may ask.
#pragma once

#include <memory>

#include "base/memo.h"
#include "search/estimate.h"
#include "search/policy_assignments.h"

namespace snug {

class PolicyCache {
 public:
  std::shared_ptr<const LayerPolicyCosts> layer_costs_of(const Variant& variant);
  // `estimate`: of this variant.
  std::shared_ptr<const PolicyAssignments> assignments_of(const Variant& variant,
                                                          const Estimate& estimate);

 private:
  Memo<Settings, std::shared_ptr<const LayerPolicyCosts>> layer_costs_;
  Memo<Settings, std::shared_ptr<const PolicyAssignments>> assignments_;
};

}  // namespace snug
