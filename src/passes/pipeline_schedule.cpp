#include "passes/pipeline_schedule.h"

#include <algorithm>

namespace snug {

StageSchedule::StageSchedule(const Recipe& recipe)
    : micro_batches_(recipe.accum),
      before_(std::min(recipe.mesh.pp - recipe.mesh.stage - 1, recipe.accum)),
      pairs_(recipe.accum - before_) {
  if (recipe.pp_schedule == PipelineSchedule::zero_bubble)
    delay_ = std::min(recipe.mesh.stage, recipe.accum);
}

std::vector<Run> StageSchedule::runs() const {
  Run first{.role = ProgramRole::training_first};
  for (int64_t m = 0; m < before_; ++m) first.units.push_back({StagePart::forward, m});
  // What is added up begins in the first program.
  const int64_t least = delay_ + 1;
  if (pairs_ <= least) {
    add_pairs(first, 0, pairs_);
    add_rest(first);
    return {first};
  }
  // Those of micro_next are a multiple of what is under way.
  const int64_t in_first = least + (pairs_ - 1 - least) % under_way();
  const int64_t times = (pairs_ - 1 - in_first) / under_way();
  add_pairs(first, 0, in_first);
  std::vector<Run> runs{first};
  if (times > 0) {
    runs.push_back({.role = ProgramRole::training_next, .times = times});
    add_pairs(runs.back(), in_first, in_first + under_way());
  }
  runs.push_back({.role = ProgramRole::training_last});
  add_pairs(runs.back(), pairs_ - 1, pairs_);
  add_rest(runs.back());
  return runs;
}

void StageSchedule::add_pairs(Run& run, int64_t first, int64_t end) const {
  for (int64_t i = first; i < end; ++i) {
    run.units.push_back({StagePart::forward, before_ + i});
    add_backward(run, i);
  }
}

void StageSchedule::add_backward(Run& run, int64_t micro_batch) const {
  run.units.push_back({StagePart::backward, micro_batch});
  if (has_weights() && micro_batch >= delay_)
    run.units.push_back({StagePart::weights, micro_batch - delay_});
}

void StageSchedule::add_rest(Run& run) const {
  for (int64_t m = pairs_; m < micro_batches_; ++m) add_backward(run, m);
  for (int64_t m = std::max<int64_t>(0, micro_batches_ - delay_);
       has_weights() && m < micro_batches_; ++m)
    run.units.push_back({StagePart::weights, m});
}

double ideal_bubble(const Recipe& recipe) {
  const bool waits = recipe.pp_schedule == PipelineSchedule::zero_bubble;
  const int64_t stages = recipe.mesh.pp, others = stages - 1;
  // In thirds of a micro-batch. Of few, nothing of an earlier one is left to fill the last waits.
  const int64_t bubble = waits ? others + std::max<int64_t>(0, stages - recipe.accum) : 3 * others;
  return static_cast<double>(bubble) / static_cast<double>(3 * recipe.accum + bubble);
}

int64_t StageSchedule::places(StagePart made, StagePart read) const {
  int64_t places = 1;
  if (made == StagePart::forward) places += before_;
  if (read == StagePart::weights) places += delay_;
  while (under_way() % places != 0) ++places;
  return places;
}

}  // namespace snug
