#include "search/meshes/stage_plans.h"

#include <algorithm>
#include <set>
#include <span>
#include <utility>

#include "base/parallel.h"
#include "base/units.h"
#include "compile/compile.h"
#include "cost/pipeline_cost.h"
#include "ir/lifetime.h"
#include "placement/space_values.h"
#include "search/layer_costs.h"
#include "techniques/pipeline/pipeline_schedule.h"

namespace snug {
namespace {

StagePlan stage_plan(const Plan& plan, const Recipe& recipe, double computes) {
  const Module& module = plan.module;
  StagePlan stage{.arenas = arenas_of(module),
                  .micro_batches = StageSchedule(recipe).under_way(),
                  .computes = computes};
  std::set<int32_t> layers;
  for (const Value& value : module.values)
    if (value.category == Category::params && value.layer != kNoLayer) layers.insert(value.layer);
  for (const int32_t layer : layers) stage.layers.push_back({layer, layer});
  stage.layers = tidy(std::move(stage.layers));
  for (const Program& program : module.programs) {
    const int64_t runs = runs_per_step(module, program.name);
    for (const Op& op : program.ops) {
      if (op.def->comm == Comm::send) stage.sent_bytes += runs * module[op.inputs[0]].type.bytes();
    }
  }
  return stage;
}

// The stages of a run, compiled. What they do alike is done once.
class StageModules {
 public:
  explicit StageModules(const Resolved& run)
      : recipe_(run.recipe),
        beginning_(compile(run.model.config().name, run.model.forward(run.build), recipe_,
                           CompilePhase::keep)) {}

  Recipe recipe_of(size_t stage) const {
    Recipe recipe = recipe_;
    const int64_t ranks = ranks_of(recipe.mesh, recipe.sharding) / recipe.mesh.pp;
    go_to_rank(static_cast<int64_t>(stage) * ranks, recipe.mesh, recipe.sharding);
    return recipe;
  }
  // What a step alone does: evaluation needs no more.
  void leave_out_evaluation() {
    beginning_.program(ProgramRole::evaluation).ops.clear();
    sweep_values(beginning_);
  }
  // Of a step with so many micro-batches.
  std::vector<Module> with(int64_t micro_batches) const {
    std::vector<Module> modules(static_cast<size_t>(recipe_.mesh.pp));
    for_each_in_parallel(modules.size(), [&](size_t stage) {
      Recipe recipe = recipe_of(stage);
      recipe.accum = micro_batches;
      modules[stage] = beginning_;
      continue_compile(modules[stage], recipe, CompilePhase::accumulate);
    });
    return modules;
  }

 private:
  Recipe recipe_;
  Module beginning_;
};

PipelineCost followed(std::span<const Module> stages, const CostModel& model) {
  std::vector<const Module*> modules;
  for (const Module& module : stages) modules.push_back(&module);
  CoreShare cores;  // of all stages together: those that wait leave theirs to the others
  if (model.cores()) {
    cores = *model.cores();
    cores.cores *= static_cast<double>(stages.size());
  }
  const auto alone = [&](const Module& module, const Program& program) {
    return model.seconds_alone(module, program);
  };
  return pipeline_cost(modules, alone, cores);
}

// What one more micro-batch takes in the middle of a step: of all stages, and of each one's compute
// lane. The slowest stage never waits there, and where cores are shared every stage has its part.
PipelineCost one_more(std::span<const Module> stages, const CostModel& model) {
  PipelineCost cost;
  for (size_t stage = 0; stage < stages.size(); ++stage) {
    const Module& module = stages[stage];
    const Program& program = module.program(ProgramRole::training_next);
    const std::vector<double> seconds = model.seconds(module, program);
    double computes = 0;
    for (size_t i = 0; i < seconds.size(); ++i)
      if (program.ops[i].lane == kComputeLane) computes += seconds[i];
    const auto pairs = static_cast<double>(program.micro_batches);
    cost.step_seconds =
        std::max(cost.step_seconds, seconds_on_lanes(module, program, seconds) / pairs);
    cost.computes.push_back(computes / pairs);
  }
  return cost;
}

// So many micro-batches of a step are followed; of a longer one the others are like one in the middle.
int64_t followed_of(const Resolved& run) {
  constexpr int64_t kRounds = 4;
  const int64_t few = kRounds * run.recipe.mesh.pp;
  return run.recipe.accum <= 2 * few ? run.recipe.accum : few;
}

// `stages`: with the micro-batches that are followed.
PipelineCost cost_of_stages(std::span<const Module> stages, const Resolved& run) {
  PipelineCost cost = followed(stages, run.cost_model);
  const int64_t left = run.recipe.accum - followed_of(run);
  if (left == 0) return cost;
  const PipelineCost more = one_more(stages, run.cost_model);
  cost.step_seconds += static_cast<double>(left) * more.step_seconds;
  for (size_t stage = 0; stage < stages.size(); ++stage)
    cost.computes[stage] += static_cast<double>(left) * more.computes[stage];
  return cost;
}

}  // namespace

StageTrial try_stages(const Resolved& run) {
  StageModules compiled(run);
  compiled.leave_out_evaluation();
  const std::vector<Module> modules = compiled.with(followed_of(run));
  StageTrial trial{.seconds = cost_of_stages(modules, run).step_seconds};
  std::vector<SpaceBytes> arenas(modules.size());
  for_each_in_parallel(modules.size(), [&](size_t stage) {
    const Module& module = modules[stage];
    SpaceBytes transient;
    for (const Value& value : module.values)
      if (resides_shared(value, value.space))
        arenas[stage][value.space] += round_up(value.storage_bytes(), alignment_of(value.space));
    for (size_t p = 0; p < module.programs.size(); ++p)
      for (const Space space : kAllSpaces)
        transient[space] =
            std::max(transient[space], most_live(module, static_cast<int32_t>(p), space));
    arenas[stage] = arenas[stage] + transient;
  });
  for (const SpaceBytes& arena : arenas) trial.arena = max(trial.arena, arena);
  return trial;
}

PlannedRun plan_stages(const Resolved& run) {
  const StageModules compiled(run);
  std::vector<Module> modules = compiled.with(run.recipe.accum);
  const bool is_short = run.recipe.accum == followed_of(run);
  const PipelineCost cost = is_short ? followed(modules, run.cost_model)
                                     : cost_of_stages(compiled.with(followed_of(run)), run);
  std::vector<Plan> plans(modules.size());
  for_each_in_parallel(plans.size(), [&](size_t stage) {
    plans[stage] = make_plan(std::move(modules[stage]), run.recipe.backend);
  });
  std::vector<StagePlan> stages;
  for (size_t stage = 0; stage < plans.size(); ++stage)
    stages.push_back(stage_plan(plans[stage], compiled.recipe_of(stage), cost.computes[stage]));
  // The pipeline fits if this one does, whatever memory a stage has too little of.
  const auto size_of = [&](const StagePlan& stage) {
    return std::pair(!stage.arenas.fits_in(run.limits()), stage.arenas[Space::device]);
  };
  const auto largest =
      static_cast<size_t>(std::ranges::max_element(stages, {}, size_of) - stages.begin());
  PlannedRun planned{
      .run = run, .plan = std::move(plans[largest]), .step_seconds = cost.step_seconds};
  planned.run.recipe = compiled.recipe_of(largest);
  planned.run.here.rank = static_cast<int64_t>(largest) *
                          ranks_of(run.recipe.mesh, run.recipe.sharding) / run.recipe.mesh.pp;
  planned.recompute = run.recipe.recompute;
  planned.stages = std::move(stages);
  planned.bubble = cost.bubble();
  return planned;
}

}  // namespace snug
