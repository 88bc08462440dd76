#include "train/planning.h"

#include <algorithm>

namespace snug {

int64_t arena_of(const Plan& plan) {
  return plan.module.arena_bytes[static_cast<size_t>(Space::device)];
}

bool leaves_recompute_open(const Resolved& run) {
  return run.recipe.recompute.kind == RecomputePolicy::Kind::automatic;
}

bool budget_decides(const Resolved& run) {
  return leaves_recompute_open(run) && run.budget == run.recipe.recompute.bytes;
}

RecomputeSearch search_for(const Resolved& run) {
  return {run.model.config().name, run.model.forward(run.build), run.recipe, run.prices};
}

PlannedRun plan_run(const Resolved& run) {
  PlannedRun planned{.run = run};
  if (!leaves_recompute_open(run)) {
    planned.plan = make_plan(run.model.config().name, run.model.forward(run.build), run.recipe);
    planned.step_seconds = price_of(planned.plan.module, run.prices).step_seconds;
    return planned;
  }
  RecomputeSearch search = search_for(run);
  int64_t bytes = run.recipe.recompute.bytes;
  if (budget_decides(run)) bytes = std::max(bytes, search.smallest_feasible());
  RecomputeChoice choice = search.choose(bytes);
  planned.plan = std::move(choice.plan);
  planned.step_seconds = choice.step_seconds;
  if (choice.policy.kind != RecomputePolicy::Kind::none) {
    planned.chosen = ChosenRecompute{
        .policy = text(choice.policy),
        .needed_without = choice.needed_without,
        .extra_time = choice.extra_seconds / (choice.step_seconds - choice.extra_seconds)};
  }
  return planned;
}

}  // namespace snug
