#include "cost/pipeline_cost.h"

#include <map>
#include <numeric>

#include "base/parallel.h"
#include "ir/lifetime.h"

namespace snug {

double PipelineCost::bubble() const {
  const double all = step_seconds * static_cast<double>(computes.size());
  return all > 0 ? 1 - std::accumulate(computes.begin(), computes.end(), 0.0) / all : 0;
}

PipelineCost pipeline_cost(std::span<const Module* const> stages, const ProgramSeconds& seconds,
                           const CoreShare& share) {
  std::vector<std::map<std::string, TimedProgram>> programs(stages.size());
  std::vector<RankRuns> runs(stages.size());
  for_each_in_parallel(stages.size(), [&](size_t stage) {
    const Module& module = *stages[stage];
    for (const Repeat& repeat : module.step) {
      for (const std::string& name : repeat.programs) {
        const Program& program = module.program(name);
        if (!programs[stage].contains(name))
          programs[stage].try_emplace(name, module, program, seconds(module, program));
      }
      for (int64_t i = 0; i < repeat.times; ++i)
        for (const std::string& name : repeat.programs)
          runs[stage].push_back(&programs[stage].at(name));
    }
  });
  PipelineCost cost{.computes = std::vector<double>(stages.size())};
  cost.step_seconds = simulate_lanes(
      runs, share,
      [&](size_t stage, const TimedProgram& timed, int32_t op, double begin, double end) {
        if (timed.program->ops[static_cast<size_t>(op)].lane == kComputeLane)
          cost.computes[stage] += end - begin;
      });
  return cost;
}

}  // namespace snug
