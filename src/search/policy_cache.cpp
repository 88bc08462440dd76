#include "search/policy_cache.h"

namespace snug {

std::shared_ptr<const LayerPolicyCosts> PolicyCache::layer_costs_of(const Variant& variant) {
  const Settings key = layer_key(variant.settings);
  return layer_costs_.of(key, [&] {
    Variant layers = variant;
    layers.settings.recipe.offload = key.recipe.offload;
    layers.settings.recipe.host_update = key.recipe.host_update;
    layers.settings.recipe.fold_update = false;
    return std::make_shared<const LayerPolicyCosts>(layers);
  });
}

std::shared_ptr<const PolicyAssignments> PolicyCache::assignments_of(const Variant& variant,
                                                                     const Estimate& estimate) {
  return assignments_.of(policy_key(variant.settings), [&] {
    return std::make_shared<const PolicyAssignments>(layer_costs_of(variant), estimate.before,
                                                     estimate.after);
  });
}

}  // namespace snug
