#include "search/offload_search.h"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>

#include "base/parallel.h"

namespace snug {
namespace {

// Without those that take so many times as long as the fastest.
std::vector<TriedPlan> near_fastest(std::vector<TriedPlan> plans, double times) {
  if (plans.empty()) return plans;
  const double fastest = std::ranges::min(plans, {}, &TriedPlan::seconds).seconds;
  std::erase_if(plans, [&](const TriedPlan& t) { return t.seconds > times * fastest; });
  return plans;
}

}  // namespace

Expected OffloadSearch::expected_of(CandidateId id) {
  const Variant& variant = all_.variants()[id.variant];
  const PlanCandidate& c = all_[id];
  Expected e{.variant = id.variant,
             .least = c.least,
             .compute = c.compute,
             .other = c.other,
             .waiting = c.waiting};
  if (!variant.plain.empty())
    e.offloaded =
        -estimates_.room_of(variant).moved_by(variant.settings.recipe.offload)[Space::device];
  return e;
}

// Variants that move values and may be faster than so many seconds; estimated and expanded.
std::vector<size_t> OffloadSearch::worth_expecting(std::span<const size_t> variants,
                                                   const Limits& limits, double below) {
  constexpr double kTie = 1 - 1e-6;  // sums of the same times in another order
  std::vector<size_t> worth;
  for (const size_t v : variants) {
    if (all_.moves(v) && least_[v].fits_in(limits) && all_.least_seconds(v) < kTie * below)
      worth.push_back(v);
  }
  for_each_in_parallel(worth.size(), [&](size_t i) {
    all_.estimate(worth[i]);
    if (all_.variants()[worth[i]].keeps_uniformly()) all_.expand(worth[i]);
  });
  std::vector<size_t> first;  // of those that share assignments: they are the first's
  std::unordered_set<Settings> shared;
  for (const size_t v : worth) {
    const Variant& variant = all_.variants()[v];
    if (variant.recompute_is_open() && !variant.keeps_uniformly() &&
        shared.insert(policy_key(variant.settings)).second)
      first.push_back(v);
  }
  for_each_in_parallel(first.size(), [&](size_t i) { all_.expand(first[i]); });
  for (const size_t v : worth) all_.expand(v);
  return worth;
}

std::vector<TriedPlan> OffloadSearch::plans_within(std::span<const size_t> variants,
                                                   const Limits& limits, double below) {
  constexpr double kNearUnfilled = 1.1;  // room makes up for as much
  const std::vector<size_t> worth = worth_expecting(variants, limits, below);
  std::vector<TriedPlan> all = starts_among(worth, limits, below);
  if (all.empty()) return all;
  std::ranges::stable_sort(all, {}, &TriedPlan::hope);
  std::vector<TriedPlan> rest(all.begin() + 1, all.end());
  use_room({all.front()}, limits, all);
  const double fastest = std::ranges::min(all, {}, &TriedPlan::seconds).seconds;
  std::erase_if(rest,
                [&](const TriedPlan& t) { return t.hope > kNear * std::min(below, fastest); });
  use_room(rest, limits, all);
  std::ranges::stable_sort(all, {}, &TriedPlan::seconds);
  use_room(near_fastest(tried_otherwise(all, limits), kNearUnfilled), limits, all);
  std::ranges::stable_sort(all, std::greater{}, &TriedPlan::seconds);
  for (TriedPlan& t : refinement_.with_host_updates(all.back(), limits))
    all.push_back(std::move(t));
  if (all.back().seconds < kNear * below)
    for (TriedPlan& t : refinement_.descended(all.back(), limits)) all.push_back(std::move(t));
  return all;
}

// Of those that contend; where none of them fits, of the first that has one.
std::vector<TriedPlan> OffloadSearch::starts_among(std::span<const size_t> worth,
                                                   const Limits& limits, double below) {
  std::vector<Expected> expected;
  for (const size_t v : worth)
    for (size_t c = 0; c < all_.of(v).size(); ++c) expected.push_back(expected_of({v, c}));
  const std::vector<size_t> few = contending(expected, limits);
  std::vector<TriedPlan> starts = starts_of(within_reach(few, expected, limits), limits, below);
  if (starts.empty()) starts = starts_of(few, limits, below);
  for (size_t i = 0; i < worth.size() && starts.empty(); ++i)
    starts = starts_of(worth.subspan(i, 1), limits, below);
  return starts;
}

// Adds what these become with the room that there is.
void OffloadSearch::use_room(const std::vector<TriedPlan>& some, const Limits& limits,
                             std::vector<TriedPlan>& all) {
  std::vector<std::vector<TriedPlan>> others(some.size());
  for_each_in_parallel(some.size(),
                       [&](size_t i) { others[i] = refinement_.with_room_used(some[i], limits); });
  for (std::vector<TriedPlan>& chain : others)
    for (TriedPlan& t : chain) all.push_back(std::move(t));
}

// What the fastest of these, which come in rising order, began with, at other distances: those that
// fit.
std::vector<TriedPlan> OffloadSearch::tried_otherwise(std::span<const TriedPlan> all,
                                                      const Limits& limits) {
  constexpr double kTied = 1.005;
  constexpr size_t kMost = 2;
  std::vector<PlanToTry> otherwise;
  std::vector<std::pair<size_t, RecomputePolicy>> began;  // with these
  for (const TriedPlan& t : all) {
    if (began.size() == kMost || t.seconds > kTied * all[0].seconds) break;
    if (std::ranges::find(began, std::pair(t.of, t.policy)) != began.end()) continue;
    began.emplace_back(t.of, t.policy);
    for (PlanToTry& other : refinement_.at_other_distances(t))
      otherwise.push_back(std::move(other));
  }
  std::vector<std::optional<TriedPlan>> tried(otherwise.size());
  for_each_in_parallel(otherwise.size(), [&](size_t i) {
    const PlanToTry& plan = otherwise[i];
    tried[i] = trials_.within(plan.variant, plan.policy, plan.of, limits);
  });
  std::vector<TriedPlan> fit;
  for (std::optional<TriedPlan>& t : tried)
    if (t) fit.push_back(*std::move(t));
  return fit;
}

// Of each variant the plan that is expected to be fastest with the room there is, the one that recomputes
// least, and, where what is kept moves, the one that recomputes most: what its lanes wait for each other
// is known least. None that computes for longer than another takes.
std::vector<TriedPlan> OffloadSearch::starts_of(std::span<const size_t> variants,
                                                const Limits& limits, double below) {
  using Seconds = double (*)(const Expected&, const Limits&);
  constexpr Seconds kOrders[] = {
      [](const Expected& e, const Limits& l) { return e.seconds_within(l); },
      [](const Expected& e, const Limits&) { return e.seconds(); },
      [](const Expected& e, const Limits&) { return -e.compute; }};
  std::vector<TriedPlan> starts;
  for (const Seconds seconds : kOrders) {
    std::vector<std::optional<TriedPlan>> found(variants.size());
    for_each_in_parallel(variants.size(), [&](size_t i) {
      if (seconds != kOrders[2] || all_.variants()[variants[i]].keeps_uniformly())
        found[i] = start_of(variants[i], limits, below,
                            [&](const Expected& e) { return seconds(e, limits); });
    });
    for (std::optional<TriedPlan>& tried : found) {
      if (!tried) continue;
      below = std::min(below, tried->seconds);
      const bool is_new = std::ranges::none_of(starts, [&](const TriedPlan& t) {
        return t.of == tried->of && t.policy == tried->policy;
      });
      if (is_new) starts.push_back(*std::move(tried));
    }
  }
  return starts;
}

// The first by `seconds` that turns out to fit.
template <typename Seconds>
std::optional<TriedPlan> OffloadSearch::start_of(size_t variant, const Limits& limits, double below,
                                                 const Seconds& seconds) {
  constexpr int kTrials = 4;
  std::vector<Expected> expected;
  for (size_t c = 0; c < all_.of(variant).size(); ++c)
    expected.push_back(expected_of({variant, c}));
  SpaceBytes excess;  // by so much what was tried was larger than it was expected to be
  for (int trial = 0; trial < kTrials; ++trial) {
    const Expected* best = nullptr;
    for (const Expected& e : expected) {
      if (e.compute < below && (e.least + excess).fits_in(limits) &&
          (best == nullptr || seconds(e) < seconds(*best)))
        best = &e;
    }
    if (best == nullptr && trial == 0 && below == kNoBound)  // estimates may be too large, too
      best = &*std::ranges::min_element(expected, {},
                                        [](const Expected& e) { return e.least[Space::device]; });
    if (best == nullptr) return std::nullopt;
    SpaceBytes more;
    const auto c = static_cast<size_t>(best - expected.data());
    if (auto tried = start({variant, c}, limits, more)) {
      tried->hope = tried->seconds * best->seconds_within(limits) / best->seconds();
      return tried;
    }
    excess = more;
  }
  return std::nullopt;
}

// With its values prefetched as early as there is room for.
std::optional<TriedPlan> OffloadSearch::start(CandidateId id, const Limits& limits,
                                              SpaceBytes& excess) {
  const Variant& variant = all_.variants()[id.variant];
  const RecomputePolicy policy = all_.policy_of(id);
  for (int32_t ahead = most_ahead(variant); ahead >= least_ahead(variant); --ahead) {
    if (auto tried = trials_.within(prefetched_ahead(variant, ahead), policy, id.variant, limits))
      return tried;
  }
  const Estimates::Trial trial =
      estimates_.trial(prefetched_ahead(variant, least_ahead(variant)), policy);
  excess = trial.arena - all_[id].least;
  return std::nullopt;
}

}  // namespace snug
