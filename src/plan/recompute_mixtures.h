// What may be recomputed between the ends of a model, the cheapest first.
//
// The ways of treating a layer are measured on compiled programs (recompute_options), mixed by
// dynamic programming into a frontier of bytes against time that knows no budget
// (recompute_frontier), and joined by the uniform policies.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "plan/recompute_options.h"

namespace snug {

struct Mixture {
  FrontierPoint point;                          // what the measured ways say of it
  std::optional<RecomputePolicy> uniform = {};  // else the point's own
  int64_t doubt = 0;                            // its room may turn out to be so much less
};

class Mixtures {
 public:
  Mixtures(std::shared_ptr<const RecomputeOptions> options, const Costs& before,
           const Costs& after);

  const std::vector<Mixture>& all() const { return mixtures_; }  // by rising seconds
  RecomputePolicy policy_of(const Mixture& mixture) const;

 private:
  void add_uniform(const RecomputePolicy& policy);

  std::shared_ptr<const RecomputeOptions> options_;
  LayerOptions layers_;
  std::vector<Mixture> mixtures_;
};

}  // namespace snug
