#include "search/candidates.h"

#include <algorithm>
#include <utility>

#include "placement/placement.h"
#include "search/uniform_policies.h"

namespace snug {
namespace {

// Large models pack at once; small ones, whose few blocks leave gaps, are not worth a long try.
// What is chosen is placed with all effort, which never makes it larger.
constexpr int64_t kTrialEffort = kPackingEffort / 50;

constexpr double kShareDoubt = 0.1;  // as much as that may be wrong, in bytes

}  // namespace

Candidates::Candidates(std::vector<Variant> variants, Estimates& estimates, PolicyCache& policies,
                       Trials& trials)
    : estimates_(estimates),
      policies_(policies),
      trials_(trials),
      variants_(std::move(variants)),
      given_(variants_.size()),
      states_(given_) {
  for (size_t v = 0; v < variants_.size(); ++v) by_picks_[variants_[v].picks] = v;
}

std::optional<size_t> Candidates::with_picks(const std::vector<int>& picks) const {
  const auto found = by_picks_.find(picks);
  return found == by_picks_.end() ? std::nullopt : std::optional(found->second);
}

bool Candidates::moves(size_t v) const { return !variants_[v].settings.recipe.offload.none(); }

void Candidates::estimate(size_t v) {
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

double Candidates::least_seconds(size_t v) const {
  if (variants_[v].plain.empty()) return states_[v].estimate->least_seconds;
  const Estimate& plain = *states_[by_picks_.at(variants_[v].plain)].estimate;
  const bool host_updates = variants_[v].settings.recipe.host_update.on;
  return plain.least_seconds - (host_updates ? plain.update_seconds : 0);
}

void Candidates::expand(size_t variant) {
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
  state.assignments = policies_.assignments_of(v, *state.estimate);
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
  if (!moves(variant) && state.estimate->other_lanes > 0) expand_uniformly(variant);
}

void Candidates::expand_uniformly(size_t variant) {
  State& state = states_[variant];
  Variant full = variants_[variant];
  full.settings.recipe.recompute = {.kind = RecomputePolicy::Kind::full};
  const Estimate most = estimates_.of(full);
  const Estimate& none = *state.estimate;
  const SpaceBytes saved = none.arena() - most.arena();
  for (const UniformPolicy& policy : std::span(kUniformPolicies).subspan(1)) {
    const double share = policy.share;
    const auto between = [&](double a, double b) { return a + share * (b - a); };
    SpaceBytes least = none.arena();
    for (const Space s : kAllSpaces)
      least[s] -= static_cast<int64_t>((share + kShareDoubt) * static_cast<double>(saved[s]));
    PlanCandidate c{.uniform = policy.policy(),
                    .least = max(least, max(none.least_arena(), min(most.arena(), none.arena()))),
                    .compute = between(none.compute_seconds, most.compute_seconds),
                    .other = between(none.other_lanes, most.other_lanes),
                    .waiting = between(none.waiting, most.waiting)};
    c.seconds = std::max(c.compute, c.other) + c.waiting;
    state.candidates.push_back(std::move(c));
  }
}

// Bytes of what is fetched for a layer, in addition to what the layer works with.
int64_t Candidates::staging_of(size_t variant) {
  if (!moves(variant)) return 0;
  Variant plain = variants_[variant];
  plain.settings.recipe.offload = {};
  plain.settings.recipe.host_update = {};
  plain.settings.recipe.fold_update = false;
  return std::max<int64_t>(
      0, states_[variant].estimate->layer.working - estimates_.of(plain).layer.working);
}

RecomputePolicy Candidates::policy_of(CandidateId id) const {
  const State& state = states_[id.variant];
  const PlanCandidate& c = state.candidates[id.candidate];
  if (c.uniform) return *c.uniform;
  if (c.assignment != nullptr) return state.assignments->policy_of(*c.assignment);
  const Variant& variant = variants_[id.variant];
  return variant.recompute_is_open() ? RecomputePolicy{} : variant.settings.recipe.recompute;
}

SpaceBytes Candidates::size_of(CandidateId id) {
  PlanCandidate& c = states_[id.variant].candidates[id.candidate];
  if (!c.arena) {
    const Variant& variant = variants_[id.variant];
    const Estimates::Trial trial =
        moves(id.variant) ? estimates_.trial(variant, policy_of(id))
                          : trials_.placed(variant, policy_of(id),
                                           c.assignment == nullptr ? kPackingEffort : kTrialEffort);
    c.arena = trial.arena;
    c.seconds = trial.seconds;
  }
  return moves(id.variant) ? *c.arena : max(c.least, *c.arena);
}

void Candidates::set_arena(CandidateId id, const SpaceBytes& arena) {
  states_[id.variant].candidates[id.candidate].arena = arena;
}

TriedPlan Candidates::tried(CandidateId id) const {
  const PlanCandidate& c = (*this)[id];
  return {.variant = variants_[id.variant],
          .policy = policy_of(id),
          .arena = c.arena.value_or(c.least),
          .seconds = c.seconds,
          .of = id.variant};
}

CandidateId Candidates::enter(TriedPlan plan) {
  State state{.estimate = states_[plan.of].estimate, .expanded = true};
  state.candidates.push_back({.uniform = std::move(plan.policy),
                              .seconds = plan.seconds,
                              .least = plan.arena,
                              .arena = plan.arena});
  state.of = plan.of;
  variants_.push_back(std::move(plan.variant));
  states_.push_back(std::move(state));
  return {variants_.size() - 1, 0};
}

}  // namespace snug
