// The plan of a run: what the user pinned, and what was left to Snug chosen.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "placement/plan.h"
#include "recipe/resolve.h"
#include "search/search.h"
#include "settings/change.h"
#include "settings/layer_range.h"

namespace snug {

// What was chosen where recompute was left open, and what that means.
struct ChosenRecompute {
  std::string policy;          // in words
  int64_t needed_without = 0;  // the arena of a step that keeps everything
  double extra_time = 0;       // modelled, as a part of that step's time
};

// A stage of a pipeline.
struct StagePlan {
  std::vector<LayerRange> layers = {};
  SpaceBytes arenas;
  int64_t micro_batches = 0;  // whose values it keeps at once, at most
  double computes = 0;        // seconds of a step, modelled
  int64_t sent_bytes = 0;     // to other stages, a step
};

// A mesh that was considered, with the best that is done on it.
struct MeshRow {
  MeshSizes mesh;
  Change change;  // to what was asked: the mesh, its micro-batches, what is shared and recomputed
  int64_t bytes = 0;   // of the arena of the stage that needs most of the device
  double seconds = 0;  // of a step, modelled; 0: unknown
  bool whole = false;  // as a plan says; else as estimated
  std::string why;     // it was not chosen; empty: it is the choice
};

// A run's plan, and what was chosen for it where something was left to Snug.
struct PlannedRun {
  Resolved run;  // with what was chosen: its micro-batch, recipe and options are the plan's
  Plan plan = {};
  std::optional<ChosenRecompute> chosen = {};
  double step_seconds = 0;             // modelled
  std::vector<RunnerUp> others = {};   // the fastest first
  std::vector<Change> changed = {};    // what gives this plan, by dimension: --batch 4 --accum 4
  RecomputePolicy recompute = {};      // as planned: never automatic
  std::vector<StagePlan> stages = {};  // of a pipeline, where they were planned together
  std::vector<MeshRow> meshes = {};    // where they were searched: the choice first
  double bubble = 0;                   // of its step: the part in which a stage waits, on average
};

// Of the device.
int64_t arena_of(const Plan& plan);

// Is how much is recomputed left to Snug? And then to the budget alone?
bool leaves_recompute_open(const Resolved& run);
bool budget_decides(const Resolved& run);
// Of what to recompute alone, the rest as the run says; and of everything that it leaves open.
PlanSearch search_for(const Resolved& run);
PlanSearch joint_search(const Resolved& run);

// Chooses what is open; what is free on a GPU is searched only where the run as it was asked does not
// fit in it. Where nothing fits the budget, the plan is the smallest there is. Throws
// does_not_fit when --recompute auto:BYTES asks for less than that.
PlannedRun plan_run(const Resolved& run);

// All stages of a pipeline together: the plan is that of the stage that needs most of the device, and
// the step's time that of all.
PlannedRun plan_stages(const Resolved& run);

}  // namespace snug
