// The stages of a pipeline together: each compiled and placed, and their step followed side by side.
//
//   StageTrial trial = try_stages(run);    // what a plan would say, but for gaps
//   PlannedRun planned = plan_stages(run);  // plan_run.h
#pragma once

#include "search/plan_run.h"

namespace snug {

struct StageTrial {
  SpaceBytes arena;  // the most of any stage, in each space
  double seconds = 0;
};
// Nothing is placed. A run without a pipeline has one stage.
StageTrial try_stages(const Resolved& run);

}  // namespace snug
