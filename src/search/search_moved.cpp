// The search where values move to other memory: what is tried there, and how what is left of the
// device is used.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/parallel.h"
#include "search/moved_layers.h"
#include "search/room.h"
#include "search/search.h"

namespace snug {
namespace {

// What all layers do alike; `share`: of what recomputing everything takes and saves.
struct UniformPolicy {
  const char* text;
  double share;
};
constexpr double kShareDoubt = 0.1;  // as much as that may be wrong, in bytes
constexpr UniformPolicy kAlike[] = {{"attention", 0.03},
                                    {"ratio:0.25", 0.25},
                                    {"ratio:0.5", 0.5},
                                    {"ratio:0.75", 0.75},
                                    {"full", 1}};

// In place of what is said of the same option, or as one more change.
void set(std::vector<Change>& changes, const Change& change) {
  const auto said = std::ranges::find_if(
      changes, [&](const Change& other) { return other.sets(change.settings().front().option); });
  if (said != changes.end())
    *said += change;
  else
    changes.push_back(change);
}

Variant with_homes(Variant variant, const Offload& offload) {
  if (offload.rules != variant.settings.recipe.offload.rules)
    set(variant.changes, {{"offload", text(offload)}});
  if (offload.ahead != variant.settings.recipe.offload.ahead)
    set(variant.changes, {{"offload-ahead", int64_t{offload.ahead}}});
  variant.settings.recipe.offload = offload;
  return variant;
}

// Is what the host is to update still in its memory, or nothing left to it?
bool host_updates_something(const Variant& variant) {
  return unless_refused([&] {
           require_host_update(variant.settings.recipe, variant.stack.layers);
           return true;
         })
      .has_value();
}

// Layers by which a variant's values are brought before their use, at most.
int32_t most_ahead(const Variant& variant) {
  constexpr int32_t kMostAhead = 3;
  return variant.ahead_is_open ? kMostAhead : variant.settings.recipe.offload.ahead;
}

}  // namespace

// Is some value elsewhere?
bool PlanSearch::is_moved(size_t v) const { return !variants_[v].settings.recipe.offload.none(); }

// Does it still wait behind its plain one? It may be estimated by now, with others.
bool PlanSearch::waits_for_its_turn(size_t v) const {
  return !variants_[v].plain.empty() && !states_[v].entered;
}

// However little it recomputes; of one that waits for its turn, what its plain one takes.
double PlanSearch::least_seconds(size_t v) const {
  return (waits_for_its_turn(v) ? states_[by_picks_.at(variants_[v].plain)] : states_[v])
      .estimate->least_seconds;
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

// So that trying one of them later costs nothing.
void PlanSearch::try_side_by_side(std::span<const Found> found) {
  for_each_in_parallel(found.size(), [&](size_t i) {
    Variant variant = variants_[found[i].variant];
    variant.settings.recipe.offload.ahead = most_ahead(variant);
    estimates_.trial(std::move(variant), policy_of(found[i]));
  });
}

// And at least.
int32_t PlanSearch::least_ahead(size_t v) const {
  return variants_[v].ahead_is_open ? 1 : variants_[v].settings.recipe.offload.ahead;
}

// With values brought so many layers ahead. False where it was tried before.
bool PlanSearch::try_moved(Found found, int32_t ahead) {
  State& state = states_[found.variant];
  Candidate& c = state.candidates[found.candidate];
  const bool is_new = !c.arena;
  Variant variant = variants_[found.variant];
  variant.settings.recipe.offload.ahead = ahead;
  const Estimates::Trial trial = estimates_.trial(std::move(variant), policy_of(found));
  if (is_new) {
    state.lag = std::max(state.lag, trial.seconds - c.seconds);
    state.excess = max(state.excess, trial.arena - c.least);
  }
  c.arena = max(trial.arena, c.placed);
  c.seconds = trial.seconds;
  c.ahead = ahead;
  return is_new;
}

// As early as there is room for.
bool PlanSearch::try_moved(Found found, const Limits& limits) {
  const Candidate& c = states_[found.variant].candidates[found.candidate];
  int32_t ahead = most_ahead(variants_[found.variant]);
  const bool is_new = try_moved(found, ahead);
  while (!c.arena->fits_in(limits) && ahead > least_ahead(found.variant)) try_moved(found, --ahead);
  return is_new;
}

// Where none of its candidates is estimated to fit: estimates may be too large, too. What the
// smallest takes then says by how much. False where there is no need, or it is known.
bool PlanSearch::try_smallest(size_t variant, const Limits& limits) {
  State& state = states_[variant];
  size_t smallest = 0;
  for (size_t c = 0; c < state.candidates.size(); ++c) {
    if (fits_by_trials({variant, c}, limits)) return false;
    if (state.candidates[c].least[Space::device] < state.candidates[smallest].least[Space::device])
      smallest = c;
  }
  if (state.candidates.empty() || !try_moved({variant, smallest}, limits)) return false;
  const Candidate& c = state.candidates[smallest];
  state.excess = *c.arena - c.least;
  return true;
}

// As its estimate and what was tried of the variant say, where it was not tried itself.
double PlanSearch::seconds_by_trials(Found found) const {
  const State& state = states_[found.variant];
  const Candidate& c = state.candidates[found.candidate];
  return c.arena ? c.seconds : c.seconds + state.lag;
}

bool PlanSearch::may_fit(Found found, const Limits& limits) const {
  return is_moved(found.variant)
             ? fits_by_trials(found, limits)
             : states_[found.variant].candidates[found.candidate].least.fits_in(limits);
}

bool PlanSearch::fits_by_trials(Found found, const Limits& limits) const {
  const State& state = states_[found.variant];
  const Candidate& c = state.candidates[found.candidate];
  const bool is_known =
      c.arena && (c.arena->fits_in(limits) || c.ahead == least_ahead(found.variant));
  return (is_known ? *c.arena : c.least + state.excess).fits_in(limits);
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
    state.candidates.push_back(
        {.uniform = parse_recompute(policy.text),
         .seconds = std::max(between(none.compute_seconds, most.compute_seconds),
                             between(none.other_lanes, most.other_lanes)) +
                    between(none.waiting, most.waiting),
         .least = max(least, max(none.least_arena(), min(most.arena(), none.arena())))});
  }
}

// What is found within these limits, and within smaller ones as long as these are expected to make a
// step hardly slower: what trials say is not quite what was expected, and what is fast there fits
// here. As trials say, the fastest last.
std::vector<PlanSearch::Found> PlanSearch::fast_within(const Limits& limits) {
  constexpr int kSmaller = 2;          // limits of each space
  constexpr double kHardly = 1.02;     // times slower
  constexpr double kOfTheNext = 0.84;  // times as many bytes
  const auto seconds_of = [&](Found f) {
    return states_[f.variant].candidates[f.candidate].seconds;
  };
  std::vector<Found> all = improved(find_fast(contenders(), limits), limits);
  const double expected = expected_seconds(limits);
  for (const Space space : kAllSpaces) {
    Limits smaller = limits;
    const int most = limits[space] == kUnlimited ? 0 : kSmaller;
    for (int i = 0; i < most && !all.empty(); ++i) {
      const Found best = all.back();
      const SpaceBytes taken = *states_[best.variant].candidates[best.candidate].arena;
      smaller[space] = static_cast<int64_t>(
          kOfTheNext * static_cast<double>(std::min(smaller[space], taken[space])));
      if (taken[space] == 0 || expected_seconds(smaller) > kHardly * expected) break;
      const std::vector<Found> fast = find_fast(contenders(), smaller);
      const std::vector<Found> more =
          improved(std::span(fast).first(std::min<size_t>(fast.size(), 1)), smaller);
      all.insert(all.end(), more.begin(), more.end());
      std::ranges::stable_sort(all, std::greater{}, seconds_of);
    }
  }
  if (all.empty()) return all;
  const Found best = all.back();
  for (Tried& tried : with_some_moved(tried_as(best), limits))
    all.push_back(enter(best, std::move(tried)));
  for (Tried& tried : with_host_updates(tried_as(all.back()), limits))
    all.push_back(enter(best, std::move(tried)));
  return all;
}

// Of a step within these limits, as far as what could be tried there is known.
double PlanSearch::expected_seconds(const Limits& limits) const {
  double least = std::numeric_limits<double>::infinity();
  for (const size_t v : contenders()) {
    for (size_t c = 0; c < states_[v].candidates.size(); ++c) {
      if (may_fit({v, c}, limits)) least = std::min(least, seconds_by_trials({v, c}));
    }
  }
  return least;
}

// The fastest few with room used: as trials say, the fastest last.
std::vector<PlanSearch::Found> PlanSearch::improved(std::span<const Found> found,
                                                    const Limits& limits) {
  constexpr size_t kImproved = 2;
  constexpr double kNear = 1.05;  // times slower than the fastest
  if (found.empty()) return {};
  const auto seconds_of = [&](Found f) {
    return states_[f.variant].candidates[f.candidate].seconds;
  };
  const auto slow = std::ranges::find_if(
      found, [&](Found f) { return seconds_of(f) > kNear * seconds_of(found.front()); });
  found = found.first(std::min(static_cast<size_t>(slow - found.begin()), kImproved));
  // The first also with its values brought later, which leaves more room.
  const Tried first = tried_as(found.front());
  const int32_t ahead = first.variant.settings.recipe.offload.ahead;
  const size_t later = first.variant.ahead_is_open ? static_cast<size_t>(ahead - 1) : 0;
  std::vector<std::vector<Tried>> chains(found.size() + later);
  for_each_in_parallel(chains.size(), [&](size_t i) {
    std::optional<Tried> begin;
    if (i < found.size()) {
      begin = tried_as(found[i]);
    } else {
      Offload offload = first.variant.settings.recipe.offload;
      offload.ahead = static_cast<int32_t>(i - found.size()) + 1;
      begin = tried_with(with_homes(first.variant, offload), first.policy, limits);
    }
    if (begin) chains[i] = with_room_used(*std::move(begin), limits);
  });
  std::vector<Found> better;
  for (const Found f : found) better.push_back(as_tried(f));
  for (size_t i = 0; i < chains.size(); ++i) {
    const Found like = found[i < found.size() ? i : 0];
    for (size_t t = 1; t < chains[i].size(); ++t)
      better.push_back(enter(like, std::move(chains[i][t])));
  }
  std::ranges::stable_sort(better, std::greater{}, seconds_of);
  return better;
}

PlanSearch::Tried PlanSearch::tried_as(Found found) const {
  const Candidate& c = states_[found.variant].candidates[found.candidate];
  Offload offload = variants_[found.variant].settings.recipe.offload;
  if (!offload.none()) offload.ahead = c.ahead;
  return {with_homes(variants_[found.variant], offload), policy_of(found),
          c.arena.value_or(c.least), c.seconds};
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
      best = Tried{variant, policy, arena, seconds};
    const int64_t left = limits.left_by(arena)[Space::device];
    if (!fits && left >= 0) break;  // another memory is too small
    if (fits && (beyond == frontier.end() || point.transient + left < beyond->transient)) break;
    bytes = point.transient + left;
  }
  return best;
}

// The same where the host's cores update half of the layers, or all that is in their memory: those
// that are faster, the fastest last.
std::vector<PlanSearch::Tried> PlanSearch::with_host_updates(const Tried& tried,
                                                             const Limits& limits) {
  const Recipe& now = tried.variant.settings.recipe;
  const int32_t layers = tried.variant.stack.layers;
  if (!tried.variant.host_update_is_open || !keeps_all_on_host(now)) return {};
  std::vector<HostUpdate> updates{{.on = true}};
  if (layers > 1) updates.push_back({.on = true, .layers = {{.first = 0, .last = layers / 2 - 1}}});
  std::erase(updates, now.host_update);
  std::vector<std::optional<Tried>> others(updates.size());
  for_each_in_parallel(updates.size(), [&](size_t i) {
    Variant variant = tried.variant;
    variant.settings.recipe.host_update = updates[i];
    set(variant.changes, {{"host-update", text(updates[i])}});
    others[i] = tried_with(std::move(variant), tried.policy, limits);
  });
  std::vector<Tried> faster;
  for (std::optional<Tried>& other : others)
    if (other && other->seconds < tried.seconds) faster.push_back(*std::move(other));
  std::ranges::stable_sort(faster, std::greater{}, &Tried::seconds);
  return faster;
}

// As a variant of its own, of what `like` estimates.
PlanSearch::Found PlanSearch::enter(Found like, Tried tried) {
  State state{.estimate = states_[like.variant].estimate, .outdone = true, .expanded = true};
  state.candidates.push_back({.uniform = std::move(tried.policy),
                              .seconds = tried.seconds,
                              .least = tried.arena,
                              .arena = tried.arena,
                              .ahead = tried.variant.settings.recipe.offload.ahead});
  variants_.push_back(std::move(tried.variant));
  states_.push_back(std::move(state));
  return Found{variants_.size() - 1, 0};
}

// Where values move, as a variant of its own: within other limits they may be brought later.
PlanSearch::Found PlanSearch::as_tried(Found found) {
  if (!is_moved(found.variant)) return found;
  const Found copy = enter(found, tried_as(found));
  states_[copy.variant].copy_of = found;
  return copy;
}

// What was moved as a whole moves in fewer layers where there is room for the others: first what a
// step moves most often, from disk to the host before to the device. Each is faster than the one
// before it, as trials say; the first is `tried` itself.
std::vector<PlanSearch::Tried> PlanSearch::with_room_used(Tried tried, const Limits& limits) {
  constexpr OffloadItem kItems[] = {OffloadItem::params, OffloadItem::grads, OffloadItem::optimizer,
                                    OffloadItem::master};
  std::vector<Tried> better{std::move(tried)};
  if (better[0].variant.plain.empty()) return better;
  const Room room = estimates_.room_of(better[0].variant);
  for (const Space space : {Space::host, Space::device}) {
    for (const OffloadItem item : kItems) {
      // What moves less needs less staging, which is room for more.
      while (auto other = use_room_in(room, space, item, better.back(), limits))
        better.push_back(std::move(*other));
    }
  }
  return better;
}

// None where that is no faster.
std::optional<PlanSearch::Tried> PlanSearch::use_room_in(const Room& room, Space space,
                                                         OffloadItem item, const Tried& tried,
                                                         const Limits& limits) {
  constexpr int32_t kFewer = 2;  // layers, where staging turns out to need them
  const int64_t left = limits.left_by(tried.arena)[space];
  for (int32_t fewer = 0; fewer <= kFewer; ++fewer) {
    const auto offload =
        room.with_nearer(tried.variant.settings.recipe.offload, item, space, left, fewer);
    if (!offload) return std::nullopt;
    Variant variant = with_homes(tried.variant, *offload);
    if (!host_updates_something(variant)) return std::nullopt;
    auto other = tried_with(std::move(variant), tried.policy, limits);
    if (!other) continue;
    if (other->seconds >= tried.seconds) return std::nullopt;
    return other;
  }
  return std::nullopt;
}

// None where it does not fit.
std::optional<PlanSearch::Tried> PlanSearch::tried_with(Variant variant,
                                                        const RecomputePolicy& policy,
                                                        const Limits& limits) {
  const Estimates::Trial trial = estimates_.trial(variant, policy);
  if (!trial.arena.fits_in(limits)) return std::nullopt;
  return Tried{std::move(variant), policy, trial.arena, trial.seconds};
}

}  // namespace snug
