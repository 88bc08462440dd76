// The search where values move to other memory: what is tried there.
#include <algorithm>
#include <functional>
#include <set>
#include <unordered_set>

#include "base/parallel.h"
#include "search/moved_layers.h"
#include "search/search.h"

namespace snug {
namespace {

// What all layers do alike; `share`: of what recomputing everything takes and saves.
struct UniformPolicy {
  const char* text;
  double share;
};
constexpr double kNear = 1.02;       // times as long as the fastest takes: worth a closer look
constexpr double kShareDoubt = 0.1;  // as much as that may be wrong, in bytes
constexpr UniformPolicy kAlike[] = {{"attention", 0.03},
                                    {"ratio:0.25", 0.25},
                                    {"ratio:0.5", 0.5},
                                    {"ratio:0.75", 0.75},
                                    {"full", 1}};

}  // namespace

// Is some value elsewhere?
bool PlanSearch::is_moved(size_t v) const { return !variants_[v].settings.recipe.offload.none(); }

// However little it recomputes; of one that moves values, what its plain one computes.
double PlanSearch::least_seconds(size_t v) const {
  if (variants_[v].plain.empty()) return states_[v].estimate->least_seconds;
  const Estimate& plain = *states_[by_picks_.at(variants_[v].plain)].estimate;
  const bool host_updates = variants_[v].settings.recipe.host_update.on;
  return plain.least_seconds - (host_updates ? plain.update_seconds : 0);
}

// What is brought for a layer, beside what the layer works with.
int64_t PlanSearch::staging_of(size_t variant) {
  if (!is_moved(variant)) return 0;
  Variant plain = variants_[variant];
  plain.settings.recipe.offload = {};
  plain.settings.recipe.host_update = {};
  plain.settings.recipe.fold_update = false;
  return std::max<int64_t>(
      0, states_[variant].estimate->layer.working - estimates_.of(plain).layer.working);
}

Expected PlanSearch::expected_of(Found found) {
  const Variant& variant = variants_[found.variant];
  const Candidate& c = states_[found.variant].candidates[found.candidate];
  Expected e{.variant = found.variant,
             .least = c.least,
             .compute = c.compute,
             .other = c.other,
             .waiting = c.waiting};
  if (!variant.plain.empty())
    e.away = -estimates_.room_of(variant).moved_by(variant.settings.recipe.offload)[Space::device];
  return e;
}

void PlanSearch::expand_uniformly(size_t variant) {
  State& state = states_[variant];
  Variant full = variants_[variant];
  full.settings.recipe.recompute = {.kind = RecomputePolicy::Kind::full};
  const Estimate most = estimates_.of(full);
  const Estimate& none = *state.estimate;
  const SpaceBytes saved = none.arena() - most.arena();
  for (const UniformPolicy& policy : kAlike) {
    const double share = policy.share;
    const auto between = [&](double a, double b) { return a + share * (b - a); };
    SpaceBytes least = none.arena();
    for (const Space s : kAllSpaces)
      least[s] -= static_cast<int64_t>((share + kShareDoubt) * static_cast<double>(saved[s]));
    Candidate c{.uniform = parse_recompute(policy.text),
                .least = max(least, max(none.least_arena(), min(most.arena(), none.arena()))),
                .compute = between(none.compute_seconds, most.compute_seconds),
                .other = between(none.other_lanes, most.other_lanes),
                .waiting = between(none.waiting, most.waiting)};
    c.seconds = std::max(c.compute, c.other) + c.waiting;
    state.candidates.push_back(std::move(c));
  }
}

// As trials say, the fastest last. In a tie what moves nothing wins; that is looked for in all variants.
std::vector<PlanSearch::Found> PlanSearch::fast_within(std::span<const size_t> variants,
                                                       const Limits& limits) {
  const auto plain = find_fastest(contenders(), limits);
  const double below =
      plain ? states_[plain->variant].candidates[plain->candidate].seconds : kForever;
  std::vector<Tried> tried = moved_within(variants, limits, below);
  if (!tried.empty()) {
    const Tried best = tried.back();
    for (Tried& other : with_some_moved(best, limits)) tried.push_back(std::move(other));
  }
  if (plain)
    for (Tried& other : with_some_moved(tried_as(*plain), limits))
      tried.push_back(std::move(other));
  std::ranges::stable_sort(tried, std::greater{}, &Tried::seconds);
  std::vector<Found> fast;
  bool has_plain = !plain;
  std::unordered_set<Settings> entered;  // chains have plans in common
  for (Tried& t : tried) {
    Settings settings = t.variant.settings;
    settings.recipe.recompute = t.policy;
    if (!entered.insert(std::move(settings)).second) continue;
    if (!has_plain && t.seconds < below) {
      fast.push_back(*plain);
      has_plain = true;
    }
    const size_t of = t.of;
    fast.push_back(enter({of, 0}, std::move(t)));
  }
  if (!has_plain) fast.push_back(*plain);
  return fast;
}

// Those with which the fastest of these began, and others that are near it.
std::vector<size_t> PlanSearch::began_near_fastest(std::span<const Found> fast) const {
  const auto seconds = [&](Found f) { return states_[f.variant].candidates[f.candidate].seconds; };
  std::set<size_t> began;
  for (const Found f : fast)
    if (seconds(f) <= kNear * seconds(fast.back()))
      began.insert(states_[f.variant].of.value_or(f.variant));
  return {began.begin(), began.end()};
}

// Variants that move values and may be faster than so many seconds; estimated and expanded.
std::vector<size_t> PlanSearch::worth_expecting(std::span<const size_t> variants,
                                                const Limits& limits, double below) {
  constexpr double kTie = 1 - 1e-6;  // sums of the same times in another order
  std::vector<size_t> worth;
  for (const size_t v : variants) {
    if (is_moved(v) && states_[v].least.fits_in(limits) && least_seconds(v) < kTie * below)
      worth.push_back(v);
  }
  for_each_in_parallel(worth.size(), [&](size_t i) {
    estimate(worth[i]);
    if (variants_[worth[i]].keeps_uniformly()) expand(worth[i]);
  });
  std::vector<size_t> first;  // of those that share assignments: they are the first's
  std::unordered_set<Settings> shared;
  for (const size_t v : worth) {
    const Variant& variant = variants_[v];
    if (variant.recompute_is_open() && !variant.keeps_uniformly() &&
        shared.insert(policy_key(variant.settings)).second)
      first.push_back(v);
  }
  for_each_in_parallel(first.size(), [&](size_t i) { expand(first[i]); });
  for (const size_t v : worth) expand(v);
  return worth;
}

// Without those that take so many times as long as the fastest.
std::vector<PlanSearch::Tried> PlanSearch::near_fastest(std::vector<Tried> plans, double times) {
  if (plans.empty()) return plans;
  const double fastest = std::ranges::min(plans, {}, &Tried::seconds).seconds;
  std::erase_if(plans, [&](const Tried& t) { return t.seconds > times * fastest; });
  return plans;
}

// Plans of these that move values: those that were tried and fit, the fastest last.
std::vector<PlanSearch::Tried> PlanSearch::moved_within(std::span<const size_t> variants,
                                                        const Limits& limits, double below) {
  constexpr double kTied = 1.005;
  constexpr double kNearUnfilled = 1.1;  // room makes up for as much
  constexpr size_t kBroughtOtherwise = 2;
  const std::vector<size_t> worth = worth_expecting(variants, limits, below);
  std::vector<Expected> expected;
  for (const size_t v : worth)
    for (size_t c = 0; c < states_[v].candidates.size(); ++c)
      expected.push_back(expected_of({v, c}));
  const std::vector<size_t> few = contending(expected, limits);
  std::vector<Tried> all = starts_of(within_reach(few, expected, limits), limits, below);
  if (all.empty()) all = starts_of(few, limits, below);
  for (size_t i = 0; i < worth.size() && all.empty(); ++i)
    all = starts_of(std::span(worth).subspan(i, 1), limits, below);
  if (all.empty()) return all;
  const auto fastest = [&] { return std::ranges::min(all, {}, &Tried::seconds).seconds; };
  const auto improve = [&](std::vector<Tried> some, auto&& with) {
    std::vector<std::vector<Tried>> others(some.size());
    for_each_in_parallel(some.size(), [&](size_t i) { others[i] = with(some[i]); });
    for (std::vector<Tried>& chain : others)
      for (Tried& t : chain) all.push_back(std::move(t));
  };
  const auto fill = [&](const Tried& t) { return with_room_used(t, limits); };
  std::ranges::stable_sort(all, {}, &Tried::hope);
  std::vector<Tried> rest(all.begin() + 1, all.end());
  improve({all.front()}, fill);
  std::erase_if(rest, [&](const Tried& t) { return t.hope > kNear * std::min(below, fastest()); });
  improve(std::move(rest), fill);
  std::ranges::stable_sort(all, {}, &Tried::seconds);
  std::vector<Tried> otherwise;
  std::vector<std::pair<size_t, RecomputePolicy>> began;  // with these
  for (const Tried& t : all) {
    if (began.size() == kBroughtOtherwise || t.seconds > kTied * all[0].seconds) break;
    if (std::ranges::find(began, std::pair(t.of, t.policy)) != began.end()) continue;
    began.emplace_back(t.of, t.policy);
    for (Tried& other : brought_otherwise(t)) otherwise.push_back(std::move(other));
  }
  improve(near_fastest(tried_all(otherwise, limits), kNearUnfilled), fill);
  std::ranges::stable_sort(all, std::greater{}, &Tried::seconds);
  for (Tried& t : with_host_updates(all.back(), limits)) all.push_back(std::move(t));
  return all;
}

// Of each variant the plan that is expected to be fastest with the room there is, the one that recomputes
// least, and, where what is kept moves, the one that recomputes most: what its lanes wait for each other
// is known least. None that computes for longer than another takes.
std::vector<PlanSearch::Tried> PlanSearch::starts_of(std::span<const size_t> variants,
                                                     const Limits& limits, double below) {
  using Seconds = double (*)(const Expected&, const Limits&);
  constexpr Seconds kOrders[] = {
      [](const Expected& e, const Limits& l) { return e.seconds_within(l); },
      [](const Expected& e, const Limits&) { return e.seconds(); },
      [](const Expected& e, const Limits&) { return -e.compute; }};
  std::vector<Tried> starts;
  for (const Seconds seconds : kOrders) {
    std::vector<std::optional<Tried>> found(variants.size());
    for_each_in_parallel(variants.size(), [&](size_t i) {
      if (seconds != kOrders[2] || variants_[variants[i]].keeps_uniformly())
        found[i] = start_of(variants[i], limits, below,
                            [&](const Expected& e) { return seconds(e, limits); });
    });
    for (std::optional<Tried>& tried : found) {
      if (!tried) continue;
      below = std::min(below, tried->seconds);
      const bool is_new = std::ranges::none_of(
          starts, [&](const Tried& t) { return t.of == tried->of && t.policy == tried->policy; });
      if (is_new) starts.push_back(*std::move(tried));
    }
  }
  return starts;
}

// The first by `seconds` that turns out to fit.
template <typename Seconds>
std::optional<PlanSearch::Tried> PlanSearch::start_of(size_t variant, const Limits& limits,
                                                      double below, const Seconds& seconds) {
  constexpr int kTrials = 4;
  std::vector<Expected> expected;
  for (size_t c = 0; c < states_[variant].candidates.size(); ++c)
    expected.push_back(expected_of({variant, c}));
  SpaceBytes excess;  // by so much what was tried was larger than it was expected to be
  for (int trial = 0; trial < kTrials; ++trial) {
    const Expected* best = nullptr;
    for (const Expected& e : expected) {
      if (e.compute < below && (e.least + excess).fits_in(limits) &&
          (best == nullptr || seconds(e) < seconds(*best)))
        best = &e;
    }
    if (best == nullptr && trial == 0 && below == kForever)  // estimates may be too large, too
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

// Those of them that fit.
std::vector<PlanSearch::Tried> PlanSearch::tried_all(const std::vector<Tried>& plans,
                                                     const Limits& limits) {
  std::vector<std::optional<Tried>> tried(plans.size());
  for_each_in_parallel(plans.size(), [&](size_t i) {
    tried[i] = tried_with(plans[i].variant, plans[i].policy, limits);
    if (tried[i]) tried[i]->of = plans[i].of;
  });
  std::vector<Tried> fit;
  for (std::optional<Tried>& t : tried)
    if (t) fit.push_back(*std::move(t));
  return fit;
}

// With its values brought as early as there is room for.
std::optional<PlanSearch::Tried> PlanSearch::start(Found found, const Limits& limits,
                                                   SpaceBytes& excess) {
  const Variant& variant = variants_[found.variant];
  const RecomputePolicy policy = policy_of(found);
  for (int32_t ahead = most_ahead(variant); ahead >= least_ahead(variant); --ahead) {
    if (auto tried = tried_with(brought_ahead(variant, ahead), policy, limits)) {
      tried->of = found.variant;
      return tried;
    }
  }
  const Estimates::Trial trial =
      estimates_.trial(brought_ahead(variant, least_ahead(variant)), policy);
  excess = trial.arena - states_[found.variant].candidates[found.candidate].least;
  return std::nullopt;
}

PlanSearch::Tried PlanSearch::tried_as(Found found) const {
  const Candidate& c = states_[found.variant].candidates[found.candidate];
  return {.variant = variants_[found.variant],
          .policy = policy_of(found),
          .arena = c.arena.value_or(c.least),
          .seconds = c.seconds,
          .of = found.variant};
}

// The same where the activations of some layers move, and less is recomputed: those that are faster,
// the fastest last.
std::vector<PlanSearch::Tried> PlanSearch::with_some_moved(const Tried& tried,
                                                           const Limits& limits) {
  constexpr int32_t kEvery[] = {2, 3, 4};
  const Variant& variant = tried.variant;
  const Recipe& now = variant.settings.recipe;
  if (!variant.moves_are_open || !variant.recompute_is_open() || now.micro_group > 1 ||
      now.offload.moves(OffloadItem::activations) ||
      tried.policy.kind == RecomputePolicy::Kind::none)
    return {};
  const auto costs = layer_costs_of(variant);
  std::vector<std::optional<Tried>> others(std::size(kEvery));
  for_each_in_parallel(others.size(), [&](size_t i) {
    others[i] = with_every_moved(tried, kEvery[i], *costs, limits);
  });
  std::vector<Tried> faster;
  for (std::optional<Tried>& other : others)
    if (other) faster.push_back(*std::move(other));
  std::ranges::stable_sort(faster, std::greater{}, &Tried::seconds);
  return faster;
}

// The fastest policies that fit where those of every so many layers move; none where that is no
// faster. What is on its way adds to what the policies say that they take: trials say how much.
std::optional<PlanSearch::Tried> PlanSearch::with_every_moved(const Tried& tried, int32_t every,
                                                              const LayerPolicyCosts& costs,
                                                              const Limits& limits) {
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
  const Variant variant = with_homes(tried.variant, offload);
  LayerPolicies layers = with_moved(costs.between(estimate.before, estimate.after), moved);
  layers.other_programs = estimate.other_programs;
  const std::vector<ParetoPoint> frontier = pareto_frontier(layers);
  int64_t bytes = limits.left_by(estimate.persistent)[Space::device];
  std::optional<Tried> best;
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
      best = Tried{
          .variant = variant, .policy = policy, .arena = arena, .seconds = seconds, .of = tried.of};
    const int64_t left = limits.left_by(arena)[Space::device];
    if (!fits && left >= 0) break;  // another memory is too small
    if (fits && (beyond == frontier.end() || point.transient + left < beyond->transient)) break;
    bytes = point.transient + left;
  }
  return best;
}

// As a variant of its own, of what `like` estimates.
PlanSearch::Found PlanSearch::enter(Found like, Tried tried) {
  State state{.estimate = states_[like.variant].estimate, .outdone = true, .expanded = true};
  state.candidates.push_back({.uniform = std::move(tried.policy),
                              .seconds = tried.seconds,
                              .least = tried.arena,
                              .arena = tried.arena});
  state.of = like.variant;
  variants_.push_back(std::move(tried.variant));
  states_.push_back(std::move(state));
  return Found{variants_.size() - 1, 0};
}

}  // namespace snug
