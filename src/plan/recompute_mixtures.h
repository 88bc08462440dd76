// `--recompute auto:BYTES`: the cheapest set of values to recompute, by modelled time, that brings
// the arena to BYTES.
//
// The ways of treating a layer are measured on compiled programs (recompute_options), mixed by
// dynamic programming into a frontier of bytes against time that knows no budget
// (recompute_frontier), and joined by the uniform policies. A budget selects the fastest point
// whose real placement fits: so more bytes are never slower, and no uniform policy that fits is
// faster.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/recompute_options.h"

namespace snug {

struct RecomputeChoice {
  RecomputePolicy policy;
  Plan plan;                   // placed and verified
  double step_seconds = 0;     // modelled
  double extra_seconds = 0;    // of these, beyond a step that keeps all
  int64_t needed_without = 0;  // the arena without recompute
};

class RecomputeSearch {
 public:
  // The recipe's own recompute policy does not matter.
  RecomputeSearch(std::string name, ForwardBuilder forward, Recipe recipe, CostModel model);

  // Throws does_not_fit, with the smallest feasible arena, when nothing fits.
  RecomputeChoice choose(int64_t bytes);

  int64_t smallest_feasible();
  int64_t needed_without() const;

 private:
  struct Candidate {
    FrontierPoint point;                          // what the measured ways say of it
    std::optional<RecomputePolicy> uniform = {};  // else the point's mixture
    int64_t least = 0;                            // it is not tried for a budget below this
    std::optional<int64_t> arena = {};            // once tried
  };

  void add_uniform(const RecomputePolicy& policy);
  RecomputePolicy policy_of(const Candidate& candidate) const;
  bool recompute_is_faster() const;
  int64_t size_of(Candidate& candidate);
  Module compile_with(const RecomputePolicy& policy) const;
  RecomputeChoice choice_of(const RecomputePolicy& policy, Module module) const;

  std::string name_;
  ForwardBuilder forward_;
  Recipe recipe_;
  CostModel model_;
  Module none_;              // placed
  double none_seconds_ = 0;  // of a step that keeps all
  int64_t floor_ = 0;        // where local values begin
  RecomputeOptions options_;
  std::vector<Candidate> candidates_;  // the fastest first
  const Candidate* last_ = nullptr;    // the candidate that was tried last
  Module last_module_;                 // and its module, not placed
};

}  // namespace snug
