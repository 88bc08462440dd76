#include "search/plan_run.h"

#include <algorithm>

#include "search/variants.h"

namespace snug {

int64_t arena_of(const Plan& plan) { return arenas_of(plan.module)[Space::device]; }

bool leaves_recompute_open(const Resolved& run) {
  return run.recipe.recompute.kind == RecomputePolicy::Kind::automatic;
}

bool budget_decides(const Resolved& run) {
  return leaves_recompute_open(run) && run.budget == run.recipe.recompute.bytes;
}

PlanSearch search_for(const Resolved& run) { return {run.model.config().name, {variant_of(run)}}; }

PlanSearch joint_search(const Resolved& run) { return {run.model.config().name, variants_of(run)}; }

namespace {

// The run as a variant settles it. What was asked, and what was allowed, stays on record.
Resolved settled(const Resolved& run, const Variant& variant) {
  Resolved chosen = changed(run, variant.change());
  chosen.asked = run.asked;
  return chosen;
}

PlannedRun planned_run(const Resolved& run, Choice choice, const PlanSearch& search) {
  const Variant& variant = search.variants()[choice.variant];
  PlannedRun planned{.run = settled(run, variant),
                     .plan = std::move(choice.plan),
                     .step_seconds = choice.step_seconds,
                     .changed = variant.changes,
                     .recompute = choice.policy};
  if (leaves_recompute_open(run) && choice.policy.kind != RecomputePolicy::Kind::none) {
    planned.chosen = ChosenRecompute{
        .policy = in_words(choice.policy),
        .needed_without = choice.needed_without,
        .extra_time = choice.extra_seconds / (choice.step_seconds - choice.extra_seconds)};
  }
  return planned;
}

// With nothing changed, and nothing recomputed where that is open.
PlannedRun plan_as_asked(const Resolved& run) {
  PlannedRun planned{.run = run, .recompute = run.recipe.recompute};
  if (leaves_recompute_open(run)) planned.recompute = {};
  Recipe recipe = run.recipe;
  recipe.recompute = planned.recompute;
  planned.plan = make_plan(run.model.config().name, run.model.forward(run.build), recipe);
  planned.step_seconds = step_cost(planned.plan.module, run.cost_model).step_seconds;
  return planned;
}

// Where nothing fits: what would if only other memory were larger, or else the smallest.
Choice nearest(PlanSearch& search, const Limits& limits) {
  Limits on_device = kNoLimits;
  on_device.host_is_pinned = limits.host_is_pinned;
  on_device[Space::device] = limits[Space::device];
  if (auto choice = on_device == limits ? std::nullopt : search.fastest(on_device))
    return std::move(*choice);
  return search.smallest(limits);
}

PlannedRun plan_within_limits(const Resolved& run) {
  const Limits limits = run.limits();
  // Memory that happens to be free changes no step that fits in it: what is computed, to the last
  // bit, does not depend on what else the GPU holds.
  if (run.within_free_memory() && !run.asked.allow.any()) {
    PlannedRun planned = plan_as_asked(run);
    if (arenas_of(planned.plan.module).fits_in(limits)) return planned;
  }
  PlanSearch search = joint_search(run);
  std::optional<Choice> choice = search.fastest(limits);
  if (!choice) return planned_run(run, nearest(search, limits), search);
  std::vector<RunnerUp> others;
  if (run.options.explain) others = search.runners_up(*choice, limits);
  PlannedRun planned = planned_run(run, std::move(*choice), search);
  planned.others = std::move(others);
  return planned;
}

}  // namespace

PlannedRun plan_run(const Resolved& run) {
  // Stages are planned as they are asked for: what a search tries is one device's.
  if (run.recipe.mesh.pp > 1) return plan_as_asked(run);
  if (leaves_recompute_open(run) && !budget_decides(run)) {
    PlanSearch search = search_for(run);
    Limits limits = run.limits();
    limits[Space::device] = run.recipe.recompute.bytes;
    return planned_run(run, search.choose(limits), search);
  }
  return run.budget ? plan_within_limits(run) : plan_as_asked(run);
}

}  // namespace snug
