#include "search/search.h"

#include <algorithm>
#include <functional>
#include <set>
#include <unordered_set>
#include <utility>

#include "base/units.h"
#include "placement/placement.h"
#include "search/best_first.h"

namespace snug {

PlanSearch::PlanSearch(std::string name, std::vector<Variant> variants)
    : name_(std::move(name)),
      trials_(name_, estimates_),
      all_(std::move(variants), estimates_, policies_, trials_),
      screened_(screen(all_, estimates_)),
      offload_(all_, screened_.least, estimates_, trials_),
      activations_(estimates_, policies_) {}

// As trials say, the fastest last. In a tie what moves nothing wins; that is looked for in all variants.
std::vector<CandidateId> PlanSearch::fast_within(std::span<const size_t> variants,
                                                 const Limits& limits) {
  const auto plain = find_fastest(all_, screened_.contenders, limits);
  const double below = plain ? all_[*plain].seconds : OffloadSearch::kNoBound;
  std::vector<TriedPlan> tried = offload_.plans_within(variants, limits, below);
  if (!tried.empty()) {
    const TriedPlan best = tried.back();
    for (TriedPlan& other : activations_.with_some_moved(best, limits))
      tried.push_back(std::move(other));
  }
  if (plain)
    for (TriedPlan& other : activations_.with_some_moved(all_.tried(*plain), limits))
      tried.push_back(std::move(other));
  std::ranges::stable_sort(tried, std::greater{}, &TriedPlan::seconds);
  std::vector<CandidateId> fast;
  bool has_plain = !plain;
  std::unordered_set<Settings> entered;  // chains have plans in common
  for (TriedPlan& t : tried) {
    if (!entered.insert(settings_with(t.variant, t.policy)).second) continue;
    if (!has_plain && t.seconds < below) {
      fast.push_back(*plain);
      has_plain = true;
    }
    fast.push_back(all_.enter(std::move(t)));
  }
  if (!has_plain) fast.push_back(*plain);
  return fast;
}

// Those with which the fastest of these began, and others that are near it.
std::vector<size_t> PlanSearch::began_near_fastest(std::span<const CandidateId> fast) const {
  std::set<size_t> began;
  for (const CandidateId id : fast)
    if (all_[id].seconds <= OffloadSearch::kNear * all_[fast.back()].seconds)
      began.insert(all_.began_with(id.variant));
  return {began.begin(), began.end()};
}

std::optional<Choice> PlanSearch::fastest(const Limits& limits) {
  const std::vector<size_t>& all = screened_.contenders;
  for (std::vector<CandidateId> fast; !(fast = fast_within(all, limits)).empty();) {
    Limits room = limits;
    while (!fast.empty()) {
      const CandidateId id = fast.back();
      fast.pop_back();
      Choice choice = choice_of(id);
      const SpaceBytes arena = arenas_of(choice.plan.module);
      if (arena.fits_in(limits)) return choice;
      const SpaceBytes gaps = max(arena - all_[id].arena.value_or(arena), {});
      all_.set_arena(id, arena);
      const bool moves = all_.moves(id.variant);
      if (moves) trials_.correct(all_.variants()[id.variant], choice.policy, arena);
      // What a trial packs more tightly than a plan is no room: once more without.
      if (room == limits && gaps != SpaceBytes{}) {
        for (const Space s : kAllSpaces) room[s] -= gaps[s];
        fast.push_back(id);
        fast = fast_within(moves ? began_near_fastest(fast) : all, room);
      }
    }
  }
  return std::nullopt;
}

Choice PlanSearch::choose(const Limits& limits) {
  if (auto choice = fastest(limits)) return std::move(*choice);
  const SpaceBytes least = smallest_feasible(limits);
  const int64_t smallest = least[Space::device], bytes = limits[Space::device];
  if (smallest <= bytes)
    throw does_not_fit("{} needs {}", name_, excess_text(least, limits))
        .hint("keep more on the device");
  throw does_not_fit(
      "{} needs at least {} ({} bytes) however much it recomputes, and --recompute auto allows {} "
      "({} bytes)",
      name_, format_bytes(smallest), format_exact(smallest), format_bytes(bytes),
      format_exact(bytes))
      .hint(fmt::format("--recompute auto:{}, a smaller batch or a shorter sequence", smallest));
}

Choice PlanSearch::smallest(const Limits& limits) {
  return choice_of(find_smallest(all_, screened_.contenders, limits));
}

SpaceBytes PlanSearch::smallest_feasible(const Limits& limits) {
  return all_.size_of(find_smallest(all_, screened_.contenders, limits));
}

int64_t PlanSearch::needed_without(size_t variant) {
  return trials_.needed_without(variants()[variant]);
}

Choice PlanSearch::choice_of(CandidateId id) {
  const Variant& variant = variants()[id.variant];
  const RecomputePolicy policy = all_.policy_of(id);
  const Estimate& estimate = *all_.estimate_of(id.variant);
  auto [plan, seconds] = trials_.plan(variant, policy);
  const bool keeps_all = policy.kind == RecomputePolicy::Kind::none;
  const int64_t arena = arenas_of(plan.module)[Space::device];
  return {.variant = id.variant,
          .policy = policy,
          .plan = std::move(plan),
          .step_seconds = seconds,
          .extra_seconds = keeps_all ? 0 : seconds - estimate.seconds,
          .needed_without = keeps_all                ? arena
                            : all_.moves(id.variant) ? estimate.arena()[Space::device]
                                                     : needed_without(id.variant)};
}

std::vector<RunnerUp> PlanSearch::runners_up(const Choice& choice, const Limits& limits) {
  return snug::runners_up(variants()[choice.variant].picks, choice.step_seconds, limits, all_,
                          offload_);
}

}  // namespace snug
