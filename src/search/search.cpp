#include "search/search.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <set>
#include <tuple>
#include <utility>

#include "base/parallel.h"
#include "base/units.h"
#include "cost/step_cost.h"
#include "passes/passes.h"
#include "placement/placement.h"

namespace snug {
namespace {

// Large models pack at once; small ones, whose few blocks leave gaps, are not worth a long try.
// What is chosen is placed with all effort, which never makes it larger.
constexpr int64_t kTrialEffort = kPackingEffort / 50;

// An entry of a queue that is no candidate yet: the variant is to be expanded.
constexpr size_t kExpand = std::numeric_limits<size_t>::max();

template <typename Key>
struct Entry {
  Key key = {};
  size_t variant = 0, candidate = kExpand;
  friend bool operator>(const Entry& a, const Entry& b) {
    return std::tie(a.key, a.variant, a.candidate) > std::tie(b.key, b.variant, b.candidate);
  }
};
template <typename Key>
using Queue = std::priority_queue<Entry<Key>, std::vector<Entry<Key>>, std::greater<>>;

template <typename Key>
Entry<Key> pop(Queue<Key>& queue) {
  const Entry<Key> top = queue.top();
  queue.pop();
  return top;
}

// Outside the limits of the other spaces comes last, then by bytes on the device.
using Size = std::pair<bool, int64_t>;
Size size_in(const SpaceBytes& bytes, const Limits& limits) {
  SpaceBytes elsewhere = bytes;
  elsewhere[Space::device] = 0;
  return {!elsewhere.fits_in(limits), bytes[Space::device]};
}

// "3.10 GiB more than the budget", "1.00 GiB more host memory than the budget": of the space that is
// missed by most.
std::string excess_text(const SpaceBytes& bytes, const Limits& limits) {
  const SpaceBytes left = limits.left_by(bytes);
  const Space space = std::ranges::min(kAllSpaces, {}, [&](Space s) { return left[s]; });
  const std::string what = space == Space::device ? "" : fmt::format(" {} memory", name_of(space));
  return fmt::format("{} more{} than the budget", format_bytes(std::max<int64_t>(-left[space], 1)),
                     what);
}

}  // namespace

PlanSearch::PlanSearch(std::string name, std::vector<Variant> variants)
    : name_(std::move(name)),
      variants_(std::move(variants)),
      given_(variants_.size()),
      states_(given_) {
  for (size_t v = 0; v < variants_.size(); ++v) by_picks_[variants_[v].picks] = v;
  estimate_all();
}

void PlanSearch::estimate(size_t v) {
  State& state = states_[v];
  if (state.estimate) return;
  state.estimate = estimates_.of(variants_[v]);
  const Variant& variant = variants_[v];
  const bool keeps_all = variant.recompute_is_open() ||
                         variant.settings.recipe.recompute.kind == RecomputePolicy::Kind::none;
  if (keeps_all)
    state.candidates.push_back({.seconds = state.estimate->seconds,
                                .least = state.estimate->arena(),
                                .compute = state.estimate->compute_seconds,
                                .other = state.estimate->other_lanes,
                                .waiting = state.estimate->waiting});
}

// Is another of the group at least as good in everything, and better or before it in the order?
bool PlanSearch::no_better(size_t v, std::span<const size_t> group) const {
  const Estimate& mine = *states_[v].estimate;
  return std::ranges::any_of(group, [&](size_t other) {
    if (other == v || !states_[other].estimate || !no_worse(*states_[other].estimate, mine))
      return false;
    return !no_worse(mine, *states_[other].estimate) ||
           std::pair(variants_[other].effect, other) < std::pair(variants_[v].effect, v);
  });
}

// Is one of its picks worse than the default where another of them is at its default? Then it is
// worse beside this one, too: a kind of attention beside a kind of loss.
bool PlanSearch::worse_beside_defaults(size_t v) const {
  const auto known = [&](const std::vector<int>& picks) {
    const auto place = by_picks_.find(picks);
    return place != by_picks_.end() && states_[place->second].estimate ? place->second : v;
  };
  std::vector<int> picks = variants_[v].picks;
  for (size_t e = 0; e < picks.size(); ++e) {
    const int pick = std::exchange(picks[e], 0);
    const size_t beside = known(picks);
    for (size_t d = 0; d < picks.size() && pick != 0 && beside != v; ++d) {
      const int own = std::exchange(picks[d], 0);
      const size_t plain = known(picks);
      picks[d] = own;
      if (own == 0 || plain == v ||
          work_key(variants_[plain].settings) != work_key(variants_[v].settings) ||
          work_key(variants_[beside].settings) != work_key(variants_[v].settings))
        continue;
      const Estimate& a = *states_[plain].estimate;
      const Estimate& b = *states_[beside].estimate;
      if (no_worse(a, b) &&
          (!no_worse(b, a) || variants_[plain].effect <= variants_[beside].effect))
        return true;
    }
    picks[e] = pick;
  }
  return false;
}

// What stays between the programs of a step where values move, as `plain` would without; in another
// order of micro-batches it may carry no gradients.
SpaceBytes PlanSearch::least_of_moved(size_t variant, size_t plain) {
  const Room room = estimates_.room_of(variants_[variant]);
  SpaceBytes least = states_[plain].estimate->persistent +
                     room.moved_by(variants_[variant].settings.recipe.offload);
  least[Space::device] += room.bytes_of(OffloadItem::grads) -
                          estimates_.room_of(variants_[plain]).bytes_of(OffloadItem::grads);
  return least;
}

void PlanSearch::estimate_all() {
  std::unordered_map<Settings, std::vector<size_t>> groups;
  for (size_t v = 0; v < variants_.size(); ++v) {
    if (!variants_[v].plain.empty()) {
      const auto plain = by_picks_.find(variants_[v].plain);
      states_[v].outdone = plain == by_picks_.end() || !states_[plain->second].estimate;
      if (!states_[v].outdone) states_[v].least = least_of_moved(v, plain->second);
      continue;
    }
    states_[v].outdone = worse_beside_defaults(v);
    if (states_[v].outdone) continue;
    estimate(v);
    groups[work_key(variants_[v].settings)].push_back(v);
  }
  for (const auto& [key, group] : groups) {
    for (const size_t v : group) states_[v].outdone = no_better(v, group);
  }
}

std::vector<size_t> PlanSearch::contenders() const {
  std::vector<size_t> list;
  for (size_t v = 0; v < states_.size(); ++v) {
    if (!states_[v].outdone) list.push_back(v);
  }
  return list;
}

std::shared_ptr<const LayerPolicyCosts> PlanSearch::layer_costs_of(const Variant& variant) {
  const Settings key = layer_key(variant.settings);
  return options_.of(key, [&] {
    Variant layers = variant;
    layers.settings.recipe.offload = key.recipe.offload;
    layers.settings.recipe.host_update = key.recipe.host_update;
    layers.settings.recipe.fold_update = false;
    return std::make_shared<const LayerPolicyCosts>(layers);
  });
}

std::shared_ptr<const PolicyAssignments> PlanSearch::assignments_of(size_t variant) {
  const Variant& v = variants_[variant];
  return assignments_.of(policy_key(v.settings), [&] {
    const Estimate& estimate = *states_[variant].estimate;
    return std::make_shared<const PolicyAssignments>(layer_costs_of(v), estimate.before,
                                                     estimate.after);
  });
}

void PlanSearch::expand(size_t variant) {
  State& state = states_[variant];
  if (state.expanded) return;
  state.expanded = true;
  const Variant& v = variants_[variant];
  if (!v.recompute_is_open()) {
    if (state.candidates.empty()) {
      state.candidates.push_back({});
      state.candidates[0].least = size_of({variant, 0});
    }
    return;
  }
  if (v.keeps_uniformly()) return expand_uniformly(variant);
  state.assignments = assignments_of(variant);
  const int64_t staging = staging_of(variant);
  const auto runs = static_cast<double>(v.settings.recipe.accum);
  for (const PolicyAssignment& m : state.assignments->all()) {
    if (m.uniform && m.uniform->kind == RecomputePolicy::Kind::none) continue;
    SpaceBytes transient = state.estimate->least_transient;
    transient[Space::device] =
        std::max(m.point.transient + staging - m.doubt, state.estimate->other_programs);
    state.candidates.push_back({.assignment = &m,
                                .seconds = state.estimate->seconds_with(runs * m.point.seconds),
                                .least = state.estimate->persistent + transient,
                                .compute = state.estimate->compute_seconds + runs * m.point.seconds,
                                .other = state.estimate->other_lanes,
                                .waiting = state.estimate->waiting});
  }
  // Where lanes wait for each other, what layers cost one by one may miss what treats them alike.
  if (!is_moved(variant) && state.estimate->other_lanes > 0) expand_uniformly(variant);
}

RecomputePolicy PlanSearch::policy_of(Found found) const {
  const State& state = states_[found.variant];
  const Candidate& c = state.candidates[found.candidate];
  if (c.uniform) return *c.uniform;
  if (c.assignment != nullptr) return state.assignments->policy_of(*c.assignment);
  const Variant& variant = variants_[found.variant];
  return variant.recompute_is_open() ? RecomputePolicy{} : variant.settings.recipe.recompute;
}

Module PlanSearch::compile_with(size_t variant, const RecomputePolicy& policy) const {
  Recipe recipe = variants_[variant].settings.recipe;
  recipe.recompute = policy;
  return compile(name_, variants_[variant].stack.whole(), recipe);
}

// The smallest budget for which it may be chosen: the same whoever asks.
SpaceBytes PlanSearch::size_of(Found found) {
  Candidate& c = states_[found.variant].candidates[found.candidate];
  if (!c.arena && is_moved(found.variant)) {
    const Estimates::Trial trial = estimates_.trial(variants_[found.variant], policy_of(found));
    c.arena = trial.arena;
    c.seconds = trial.seconds;
  } else if (!c.arena) {
    last_module_ = compile_with(found.variant, policy_of(found));
    last_ = found;
    c.seconds = step_cost(last_module_, variants_[found.variant].cost_model).step_seconds;
    Module trial = last_module_;
    place(trial, c.assignment == nullptr ? kPackingEffort : kTrialEffort);
    c.arena = arenas_of(trial);
  }
  return is_moved(found.variant) ? *c.arena : max(c.least, *c.arena);
}

// Of those that move nothing.
std::optional<PlanSearch::Found> PlanSearch::find_fastest(std::span<const size_t> variants,
                                                          const Limits& limits) {
  Queue<std::pair<double, Effect>> queue;
  const auto push = [&](size_t v, size_t c) {
    const Candidate& candidate = states_[v].candidates[c];
    if (candidate.least.fits_in(limits))
      queue.push({{candidate.seconds, variants_[v].effect}, v, c});
  };
  // What computes more than a plan of the same variant that fits is no faster but for what lanes wait
  // for each other; where other lanes take longer, hundreds are expected to be as fast. Of those every so
  // many is tried, and what treats all layers alike.
  std::set<std::pair<size_t, size_t>> fit;  // of those that were tried
  std::map<size_t, double> computes;        // by variant: the least of these
  const auto is_in_vain = [&](size_t v, size_t c) {
    constexpr size_t kTried = 8;
    const auto least = computes.find(v);
    const std::vector<Candidate>& all = states_[v].candidates;
    return least != computes.end() && all[c].compute >= least->second && !all[c].uniform &&
           c % (all.size() / kTried + 1) != 0;
  };
  for (const size_t v : variants) {
    const State& state = states_[v];
    if (is_moved(v) || !state.estimate->least_arena().fits_in(limits)) continue;
    // What moves is more where less is recomputed: none of its policies bounds the others.
    if (variants_[v].keeps_uniformly()) expand(v);
    for (size_t c = 0; c < state.candidates.size(); ++c) push(v, c);
    if (!state.expanded) queue.push({{least_seconds(v), variants_[v].effect}, v, kExpand});
  }
  while (!queue.empty()) {
    const auto [key, v, c] = pop(queue);
    if (c == kExpand) {
      const size_t known = states_[v].candidates.size();
      expand(v);
      for (size_t i = known; i < states_[v].candidates.size(); ++i) push(v, i);
    } else if (fit.contains({v, c})) {
      return Found{v, c};
    } else if (!is_in_vain(v, c) && size_of({v, c}).fits_in(limits)) {
      // Its true time is known now: another may be faster.
      const Candidate& candidate = states_[v].candidates[c];
      if (candidate.seconds <= key.first) return Found{v, c};
      fit.insert({v, c});
      double& least = computes.try_emplace(v, candidate.compute).first->second;
      least = std::min(least, candidate.compute);
      push(v, c);
    }
  }
  return std::nullopt;
}

PlanSearch::Found PlanSearch::find_smallest(const Limits& limits) {
  Queue<Size> queue;
  const std::vector<size_t> all = contenders();
  for_each_in_parallel(all.size(), [&](size_t i) { estimate(all[i]); });
  for (const size_t v : all) queue.push({size_in(states_[v].estimate->least_arena(), limits), v});
  Found best;
  Size smallest{true, kUnlimited};
  while (!queue.empty() && queue.top().key < smallest) {
    const auto [key, v, c] = pop(queue);
    if (c == kExpand) {
      expand(v);
      const auto& candidates = states_[v].candidates;
      for (size_t i = 0; i < candidates.size(); ++i)
        queue.push({size_in(candidates[i].least, limits), v, i});
    } else if (const Size size = size_in(size_of({v, c}), limits); size < smallest) {
      smallest = size;
      best = {v, c};
    }
  }
  return best;
}

std::optional<Choice> PlanSearch::fastest(const Limits& limits) {
  const std::vector<size_t> all = contenders();
  for (std::vector<Found> fast; !(fast = fast_within(all, limits)).empty();) {
    Limits room = limits;
    while (!fast.empty()) {
      const Found found = fast.back();
      fast.pop_back();
      Candidate& tried = states_[found.variant].candidates[found.candidate];
      Choice choice = choice_of(found);
      const SpaceBytes arena = arenas_of(choice.plan.module);
      if (arena.fits_in(limits)) return choice;
      const SpaceBytes gaps = max(arena - tried.arena.value_or(arena), {});
      tried.arena = arena;
      if (is_moved(found.variant)) {
        Settings settings = variants_[found.variant].settings;
        settings.recipe.recompute = choice.policy;
        placed_[settings] = arena;
      }
      // What a trial packs more tightly than a plan is no room: once more without.
      if (room == limits && gaps != SpaceBytes{}) {
        for (const Space s : kAllSpaces) room[s] -= gaps[s];
        fast.push_back(found);
        fast = fast_within(is_moved(found.variant) ? began_near_fastest(fast) : all, room);
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

Choice PlanSearch::smallest(const Limits& limits) { return choice_of(find_smallest(limits)); }

SpaceBytes PlanSearch::smallest_feasible(const Limits& limits) {
  return size_of(find_smallest(limits));
}

int64_t PlanSearch::needed_without(size_t variant) {
  Module module = compile_with(variant, {});
  place(module);
  return arenas_of(module)[Space::device];
}

Choice PlanSearch::choice_of(Found found) {
  const Variant& variant = variants_[found.variant];
  const RecomputePolicy policy = policy_of(found);
  const bool tried_last =
      last_ && last_->variant == found.variant && last_->candidate == found.candidate;
  Module module = tried_last ? last_module_ : compile_with(found.variant, policy);
  place(module);
  const double seconds = step_cost(module, variant.cost_model).step_seconds;
  const bool keeps_all = policy.kind == RecomputePolicy::Kind::none;
  const int64_t arena = arenas_of(module)[Space::device];
  return {.variant = found.variant,
          .policy = policy,
          .plan = plan_of(std::move(module), variant.settings.recipe.backend),
          .step_seconds = seconds,
          .extra_seconds = keeps_all ? 0 : seconds - states_[found.variant].estimate->seconds,
          .needed_without = keeps_all ? arena
                            : is_moved(found.variant)
                                ? states_[found.variant].estimate->arena()[Space::device]
                                : needed_without(found.variant)};
}

RunnerUp PlanSearch::runner_up(size_t variant, double seconds, const Limits& limits) {
  estimate(variant);
  RunnerUp other{.name = flags_of(variants_[variant].change()),
                 .effect = variants_[variant].effect};
  const size_t only[] = {variant};
  std::optional<Tried> best;
  if (const auto found = find_fastest(only, limits)) best = tried_as(*found);
  if (const auto moved = moved_within(only, limits, kForever); !moved.empty()) best = moved.back();
  if (best) {
    other.bytes = best->arena[Space::device];
    other.seconds = best->seconds;
    const double slower = 100 * (best->seconds / seconds - 1);
    other.why = slower < 0.05 ? "no faster" : fmt::format("{:.1f} % slower", slower);
    return other;
  }
  expand(variant);
  const auto& candidates = states_[variant].candidates;
  const auto least = std::ranges::min_element(
      candidates, {}, [&](const Candidate& c) { return size_in(c.least, limits); });
  const SpaceBytes bytes = max(least->arena.value_or(least->least), least->least);
  other.bytes = bytes[Space::device];
  other.seconds = least->seconds;
  other.why =
      fmt::format("needs {}{}", excess_text(bytes, limits),
                  variants_[variant].recompute_is_open() ? " however much it recomputes" : "");
  return other;
}

std::vector<RunnerUp> PlanSearch::runners_up(const Choice& choice, const Limits& limits) {
  const auto& picks = variants_[choice.variant].picks;
  std::vector<RunnerUp> others;
  for (size_t v = 0; v < given_; ++v) {
    const auto& other = variants_[v].picks;
    size_t differences = 0;
    for (size_t d = 0; d < picks.size(); ++d) differences += picks[d] != other[d];
    if (differences == 1) others.push_back(runner_up(v, choice.step_seconds, limits));
  }
  const int64_t bytes = limits[Space::device];
  std::ranges::stable_sort(others, {}, [&](const RunnerUp& r) {
    return std::pair(r.bytes > bytes, r.bytes > bytes ? static_cast<double>(r.bytes) : r.seconds);
  });
  return others;
}

}  // namespace snug
