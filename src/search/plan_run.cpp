#include "search/plan_run.h"

#include <algorithm>

#include "cost/pipeline_cost.h"
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
        .policy = text(choice.policy),
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
  if (run.within_free_memory() && run.asked.allow.empty()) {
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

StagePlan stage_plan(const Plan& plan, const Mesh& mesh, int64_t micro_batches, double computes) {
  const Module& module = plan.module;
  StagePlan stage{.arenas = arenas_of(module),
                  .micro_batches = std::min(mesh.pp - mesh.stage, micro_batches),
                  .computes = computes};
  std::vector<int32_t> layers;
  for (const Value& value : module.values)
    if (value.category == Category::params && value.layer != kNoLayer)
      layers.push_back(value.layer);
  for (const Program& program : module.programs) {
    const int64_t runs = runs_per_step(module, program.name);
    for (const Op& op : program.ops) {
      if (op.def->comm == Comm::send) stage.sent_bytes += runs * module[op.inputs[0]].type.bytes();
    }
  }
  const auto [first, last] = std::ranges::minmax(layers);
  stage.first_layer = first;
  stage.last_layer = last;
  return stage;
}

}  // namespace

PlannedRun plan_stages(const Resolved& run) {
  std::vector<PlannedRun> plans;
  std::vector<const Module*> modules;
  const int64_t ranks = ranks_of(run.recipe.mesh, run.recipe.sharding) / run.recipe.mesh.pp;
  for (int64_t stage = 0; stage < run.recipe.mesh.pp; ++stage) {
    Resolved one = run;
    one.options.rank = one.asked.rank = stage * ranks;
    go_to_rank(one.options.rank, one.recipe.mesh, one.recipe.sharding);
    plans.push_back(plan_as_asked(one));
  }
  for (const PlannedRun& plan : plans) modules.push_back(&plan.plan.module);
  const PipelineCost cost =
      pipeline_cost(modules, [&](const Module& module, const Program& program) {
        return run.cost_model.seconds(module, program);
      });
  std::vector<StagePlan> stages;
  size_t largest = 0;
  for (size_t stage = 0; stage < plans.size(); ++stage) {
    const Recipe& recipe = plans[stage].run.recipe;
    stages.push_back(
        stage_plan(plans[stage].plan, recipe.mesh, recipe.accum, cost.computes[stage]));
    if (arena_of(plans[stage].plan) > arena_of(plans[largest].plan)) largest = stage;
  }
  PlannedRun planned = std::move(plans[largest]);
  planned.step_seconds = cost.step_seconds;
  planned.stages = std::move(stages);
  planned.bubble = cost.bubble();
  return planned;
}

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
