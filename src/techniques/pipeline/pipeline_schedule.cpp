#include "techniques/pipeline/pipeline_schedule.h"

#include <algorithm>

#include "base/units.h"

namespace snug {

StageSchedule::StageSchedule(const Recipe& recipe)
    : micro_batches_(recipe.accum), stages_(recipe.mesh.pp), chunks_(recipe.mesh.chunks) {
  const int64_t later = stages_ - recipe.mesh.stage - 1;
  // Where a micro-batch comes back for the next chunk, twice as many: stages are a pair apart.
  before_ = chunks_ == 1 ? later : 2 * later + (chunks_ - 1) * stages_;
  before_ = std::min(before_, all_forwards());
  if (recipe.pp_schedule == PipelineSchedule::zero_bubble)
    delay_ = std::min(recipe.mesh.stage, recipe.accum);

  ProgramRuns step{.role = ProgramRole::training_first};
  for (int64_t n = 0; n < before_; ++n) step.units.push_back(nth(n, /*is_forward=*/true));
  add_pairs(step, 0, all_forwards() - before_);
  add_rest(step);
  step_ = std::move(step.units);
  cycle_ = chunks_ == 1 ? under_way() : round_up(under_way(), stages_);
}

int64_t StageSchedule::under_way() const {
  return most_at_once(forward(0), static_cast<StagePart>(parts() - 1));
}

std::vector<ProgramRuns> StageSchedule::runs() const {
  const int64_t pairs = all_forwards() - before_;
  ProgramRuns first{.role = ProgramRole::training_first};
  // What is added up begins in the first program.
  const int64_t least = (chunks_ - 1) * stages_ + delay_ + 1;
  if (pairs <= least) {
    first.units = step_;
    return {first};
  }
  const int64_t in_next = cycle_ * chunks_;
  const int64_t in_first = least + (pairs - 1 - least) % in_next;
  const int64_t times = (pairs - 1 - in_first) / in_next;
  for (int64_t n = 0; n < before_; ++n) first.units.push_back(nth(n, /*is_forward=*/true));
  add_pairs(first, 0, in_first);
  std::vector<ProgramRuns> runs{first};
  if (times > 0) {
    runs.push_back({.role = ProgramRole::training_next, .times = times});
    add_pairs(runs.back(), in_first, in_first + in_next);
  }
  runs.push_back({.role = ProgramRole::training_last});
  add_pairs(runs.back(), pairs - 1, pairs);
  add_rest(runs.back());
  return runs;
}

// As many micro-batches as there are stages go through one chunk after another.
Unit StageSchedule::nth(int64_t n, bool is_forward) const {
  const int64_t round = n / (stages_ * chunks_), in_round = n % (stages_ * chunks_);
  const int64_t chunk = in_round / stages_;
  return {.part = is_forward ? forward(chunk) : backward(chunks_ - 1 - chunk),
          .micro_batch = round * stages_ + in_round % stages_};
}

void StageSchedule::add_pairs(ProgramRuns& run, int64_t first, int64_t end) const {
  for (int64_t i = first; i < end; ++i) {
    run.units.push_back(nth(before_ + i, /*is_forward=*/true));
    add_backward(run, i);
  }
}

void StageSchedule::add_backward(ProgramRuns& run, int64_t n) const {
  run.units.push_back(nth(n, /*is_forward=*/false));
  if (has_weights() && n >= delay_) run.units.push_back({weights(), n - delay_});
}

void StageSchedule::add_rest(ProgramRuns& run) const {
  for (int64_t n = all_forwards() - before_; n < all_forwards(); ++n) add_backward(run, n);
  for (int64_t m = std::max<int64_t>(0, micro_batches_ - delay_);
       has_weights() && m < micro_batches_; ++m)
    run.units.push_back({weights(), m});
}

double ideal_wait(const Recipe& recipe) {
  const int64_t stages = recipe.mesh.pp, others = stages - 1;
  if (recipe.pp_schedule != PipelineSchedule::zero_bubble)
    return static_cast<double>(others) / static_cast<double>(recipe.mesh.chunks);
  // Of few micro-batches, nothing of an earlier one is left to fill the last waits.
  return static_cast<double>(others + std::max<int64_t>(0, stages - recipe.accum)) / 3;
}

double ideal_bubble(const Recipe& recipe) {
  const double wait = ideal_wait(recipe);
  return wait / (static_cast<double>(recipe.accum) + wait);
}

double StageSchedule::kept() const {
  int64_t chunks = 0;
  for (int64_t chunk = 0; chunk < chunks_; ++chunk)
    chunks += places(forward(chunk), backward(chunk));
  return static_cast<double>(chunks) / static_cast<double>(chunks_);
}

int64_t StageSchedule::most_at_once(StagePart made, StagePart read) const {
  std::vector<int64_t> begins, ends;  // by micro-batch: when
  for (size_t at = 0; at < step_.size(); ++at) {
    if (step_[at].part == made) begins.push_back(static_cast<int64_t>(at));
    if (step_[at].part == read) ends.push_back(static_cast<int64_t>(at));
  }
  size_t most = 1;
  for (size_t m = 0; m < ends.size(); ++m)
    while (m + most < begins.size() && begins[m + most] < ends[m]) ++most;
  return static_cast<int64_t>(most);
}

int64_t StageSchedule::places(StagePart made, StagePart read) const {
  int64_t places = most_at_once(made, read);
  while (cycle_ % places != 0) ++places;
  return places;
}

}  // namespace snug
