// Modelled time of a step over the stages of a pipeline: their lanes side by side, and a message takes
// the time of both ends from when both are at it.
//
//   PipelineCost cost = pipeline_cost(stages, [&](const Module& m, const Program& p) {
//     return model.seconds(m, p);
//   });
//   cost.bubble();   // the part of the step in which a stage computes nothing, on average
#pragma once

#include <functional>
#include <span>
#include <vector>

#include "cost/lane_simulation.h"
#include "ir/program.h"

namespace snug {

struct PipelineCost {
  double step_seconds = 0;
  std::vector<double> computes;  // by stage: seconds in which its compute lane runs an op
  double bubble() const;
};

// What each op of a program takes, in seconds.
using ProgramSeconds = std::function<std::vector<double>(const Module&, const Program&)>;

// `stages`: one rank of each, compiled. Collectives within a stage take what they take. Throws an
// internal error where stages wait for each other.
PipelineCost pipeline_cost(std::span<const Module* const> stages, const ProgramSeconds& seconds,
                           const CoreShare& share = {});

}  // namespace snug
