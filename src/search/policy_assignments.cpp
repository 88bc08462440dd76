#include "search/policy_assignments.h"

#include <algorithm>
#include <utility>

namespace snug {
namespace {

// A uniform policy is tried although the measured policies say that it needs this much more than
// the budget: they may be wrong about its edges, and it must never be missed.
constexpr double kDoubt = 0.05;

std::vector<RecomputePolicy> uniform_policies() {
  using Kind = RecomputePolicy::Kind;
  std::vector<RecomputePolicy> all{
      {.kind = Kind::none}, {.kind = Kind::attention}, {.kind = Kind::full}, {.kind = Kind::sqrt}};
  for (const int64_t every : {2, 3, 4, 6, 8}) all.push_back({.kind = Kind::every, .every = every});
  for (const double ratio : {0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9})
    all.push_back({.kind = Kind::ratio, .ratio = ratio});
  return all;
}

}  // namespace

PolicyAssignments::PolicyAssignments(std::shared_ptr<const LayerPolicyCosts> options,
                                     const Costs& before, const Costs& after)
    : options_(std::move(options)), layers_(options_->between(before, after)) {
  for (ParetoPoint& point : pareto_frontier(layers_)) assignments_.push_back({std::move(point)});
  for (const RecomputePolicy& uniform : uniform_policies()) add_uniform(uniform);
  std::ranges::stable_sort(assignments_, {}, [](const PolicyAssignment& m) {
    return std::pair(m.point.seconds, m.point.transient - m.doubt);
  });
}

void PolicyAssignments::add_uniform(const RecomputePolicy& policy) {
  auto options = options_->assignment_of(policy);
  if (!options) return;
  ParetoPoint point = evaluate(layers_, std::move(*options));
  const auto doubt = static_cast<int64_t>(kDoubt * static_cast<double>(point.transient));
  assignments_.push_back({.point = std::move(point), .uniform = policy, .doubt = doubt});
}

RecomputePolicy PolicyAssignments::policy_of(const PolicyAssignment& assignment) const {
  if (assignment.uniform) return *assignment.uniform;
  return options_->policy_of(options_->tidy(layers_, assignment.point).options);
}

}  // namespace snug
