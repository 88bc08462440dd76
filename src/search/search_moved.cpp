// The search where values move to other memory: what is tried there, and how what is left of the
// device is used.
#include <algorithm>

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

Variant with_homes(Variant variant, const Offload& offload) {
  const Change homes{{"offload", text(offload)}};
  const auto said = std::ranges::find_if(
      variant.changes, [](const Change& change) { return change.sets("offload"); });
  if (said != variant.changes.end())
    *said += homes;
  else
    variant.changes.push_back(homes);
  if (offload.ahead != variant.settings.recipe.offload.ahead)
    variant.changes.push_back({{"offload-ahead", int64_t{offload.ahead}}});
  variant.settings.recipe.offload = offload;
  return variant;
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
  plain.settings.recipe.fold_update = false;
  return std::max<int64_t>(
      0, states_[variant].estimate->layer.working - estimates_.of(plain).layer.working);
}

// So that trying one of them later costs nothing.
void PlanSearch::try_side_by_side(std::span<const Found> found) {
  for_each_in_parallel(found.size(), [&](size_t i) {
    estimates_.trial(variants_[found[i].variant], policy_of(found[i]));
  });
}

// False where it is known.
bool PlanSearch::try_moved(Found found) {
  State& state = states_[found.variant];
  Candidate& c = state.candidates[found.candidate];
  if (c.arena) return false;
  const Estimates::Trial trial = estimates_.trial(variants_[found.variant], policy_of(found));
  state.lag = std::max(state.lag, trial.seconds - c.seconds);
  state.excess = max(state.excess, trial.arena - c.least);
  c.arena = trial.arena;
  c.seconds = trial.seconds;
  return true;
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
  if (state.candidates.empty() || !try_moved({variant, smallest})) return false;
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

bool PlanSearch::fits_by_trials(Found found, const Limits& limits) const {
  const State& state = states_[found.variant];
  const Candidate& c = state.candidates[found.candidate];
  return c.arena.value_or(c.least + state.excess).fits_in(limits);
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

// With what moves brought earlier, and room used: `found` itself among them, the fastest last, as
// trials say. How far ahead is tried side by side.
std::vector<PlanSearch::Found> PlanSearch::improved(Found found, const Limits& limits) {
  constexpr int32_t kMostAhead = 3;
  const Tried now = tried_as(found);
  const bool open = is_moved(found.variant) && now.variant.ahead_is_open;
  std::vector<std::vector<Tried>> by_ahead(open ? kMostAhead : 1);
  for_each_in_parallel(by_ahead.size(), [&](size_t i) {
    std::optional<Tried> first = now;
    if (i > 0) {
      Offload offload = now.variant.settings.recipe.offload;
      offload.ahead = static_cast<int32_t>(i) + 1;
      first = roomier(now, offload, limits);
    }
    if (first) by_ahead[i] = with_room_used(std::move(*first), limits);
  });
  std::vector<Found> better{found};
  for (size_t i = 0; i < by_ahead.size(); ++i) {
    std::vector<Tried>& chain = by_ahead[i];
    // Staging only grows: what does not fit, or is no faster, is neither farther ahead.
    if (chain.empty() || (i > 0 && chain[0].seconds >= by_ahead[i - 1][0].seconds)) break;
    for (size_t t = i == 0 ? 1 : 0; t < chain.size(); ++t) better.push_back(enter(found, chain[t]));
  }
  std::ranges::stable_sort(better, std::greater{}, [&](Found f) {
    return states_[f.variant].candidates[f.candidate].seconds;
  });
  for (Tried& tried : with_some_moved(tried_as(better.back()), limits))
    better.push_back(enter(found, std::move(tried)));
  for (Tried& tried : with_host_updates(tried_as(better.back()), limits))
    better.push_back(enter(found, std::move(tried)));
  return better;
}

PlanSearch::Tried PlanSearch::tried_as(Found found) const {
  const Candidate& c = states_[found.variant].candidates[found.candidate];
  return {variants_[found.variant], policy_of(found), c.arena.value_or(c.least), c.seconds};
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
  if (!tried.variant.host_update_is_open || now.host_update.on || !keeps_all_on_host(now))
    return {};
  std::vector<HostUpdate> updates{{.on = true}};
  if (layers > 1) updates.push_back({.on = true, .layers = {{.first = 0, .last = layers / 2 - 1}}});
  std::vector<std::optional<Tried>> others(updates.size());
  for_each_in_parallel(updates.size(), [&](size_t i) {
    Variant variant = tried.variant;
    variant.settings.recipe.host_update = updates[i];
    variant.changes.push_back({{"host-update", text(updates[i])}});
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
                              .arena = tried.arena});
  variants_.push_back(std::move(tried.variant));
  states_.push_back(std::move(state));
  return Found{variants_.size() - 1, 0};
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
    auto other = roomier(tried, *offload, limits);
    if (!other) continue;
    if (other->seconds >= tried.seconds) return std::nullopt;
    return other;
  }
  return std::nullopt;
}

// The same plan with other homes; none where it does not fit.
std::optional<PlanSearch::Tried> PlanSearch::roomier(const Tried& tried, const Offload& offload,
                                                     const Limits& limits) {
  return tried_with(with_homes(tried.variant, offload), tried.policy, limits);
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
