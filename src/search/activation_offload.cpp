#include "search/activation_offload.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "base/parallel.h"
#include "search/moved_layers.h"

namespace snug {

std::vector<TriedPlan> ActivationOffload::with_some_moved(const TriedPlan& tried,
                                                          const Limits& limits) const {
  constexpr int32_t kEvery[] = {2, 3, 4};
  const Variant& variant = tried.variant;
  const Recipe& now = variant.settings.recipe;
  if (!variant.moves_are_open || !variant.recompute_is_open() || now.micro_group > 1 ||
      now.offload.moves(OffloadItem::activations) ||
      tried.policy.kind == RecomputePolicy::Kind::none)
    return {};
  const auto costs = policies_.layer_costs_of(variant);
  std::vector<std::optional<TriedPlan>> others(std::size(kEvery));
  for_each_in_parallel(others.size(), [&](size_t i) {
    others[i] = with_every_moved(tried, kEvery[i], *costs, limits);
  });
  std::vector<TriedPlan> faster;
  for (std::optional<TriedPlan>& other : others)
    if (other) faster.push_back(*std::move(other));
  std::ranges::stable_sort(faster, std::greater{}, &TriedPlan::seconds);
  return faster;
}

// The fastest policies that fit where those of every so many layers move; none where that is no
// faster. What is on its way adds to what the policies say that they take: trials say how much.
std::optional<TriedPlan> ActivationOffload::with_every_moved(const TriedPlan& tried, int32_t every,
                                                             const LayerPolicyCosts& costs,
                                                             const Limits& limits) const {
  constexpr int kTrials = 4;
  const Estimate estimate = estimates_.of(tried.variant);
  Offload offload = tried.variant.settings.recipe.offload;
  if (tried.variant.ahead_is_open) offload.ahead = std::max(offload.ahead, every - 1);
  const double runs = static_cast<double>(tried.variant.settings.recipe.accum);
  const MovedLayers moved{
      .every = every,
      .link = tried.variant.cost_model.surroundings().link.both,
      .hidden = std::min(every, offload.ahead + 1) * estimate.forward_seconds / runs};
  offload.rules.push_back(
      {.item = OffloadItem::activations, .layers = moved.ranges(tried.variant.stack.layers)});
  if (offload.rules.back().layers.empty()) return std::nullopt;
  const Variant variant = with_offload(tried.variant, offload);
  LayerPolicies layers = with_moved(costs.between(estimate.before, estimate.after), moved);
  layers.other_programs = estimate.other_programs;
  const std::vector<ParetoPoint> frontier = pareto_frontier(layers);
  int64_t bytes = limits.left_by(estimate.persistent)[Space::device];
  std::optional<TriedPlan> best;
  for (int trial = 0; trial < kTrials; ++trial) {
    const auto beyond = std::ranges::upper_bound(frontier, bytes, {}, &ParetoPoint::transient);
    if (beyond == frontier.begin()) break;
    const ParetoPoint& point = *(beyond - 1);
    if (estimate.compute_seconds + runs * point.seconds >= tried.seconds) break;
    const RecomputePolicy policy = costs.policy_of(as_measured(layers, point.options));
    const auto [arena, seconds] = estimates_.trial(variant, policy);
    const bool fits = arena.fits_in(limits);
    const double lost = runs * seconds_lost(layers, moved, point.options);
    if (fits && seconds + lost < tried.seconds && (!best || seconds < best->seconds))
      best = TriedPlan{
          .variant = variant, .policy = policy, .arena = arena, .seconds = seconds, .of = tried.of};
    const int64_t left = limits.left_by(arena)[Space::device];
    if (!fits && left >= 0) break;  // another memory is too small
    if (fits && (beyond == frontier.end() || point.transient + left < beyond->transient)) break;
    bytes = point.transient + left;
  }
  return best;
}

}  // namespace snug
