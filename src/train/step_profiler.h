// Measures a few steps of a training op by op, and reports where their time and memory went.
//
//   StepProfiler profiler(planned, executor, first_step);
//   profiler.before(step);              // every step
//   profiler.settled(report);           // when its numbers have come
//   report.profile = profiler.finish(peak_bytes);
#pragma once

#include <vector>

#include "ir/span.h"
#include "runtime/executor.h"
#include "search/plan_run.h"
#include "snug/snug.h"

namespace snug {

class StepProfiler {
 public:
  // As --profile says; `first_step` is the run's next. Both outlive this.
  StepProfiler(const PlannedRun& planned, Executor& executor, int64_t first_step);

  void before(int64_t step);
  void settled(const StepReport& report);
  // Writes the files, where there is a directory for them.
  ProfileReport finish(int64_t peak_bytes);

 private:
  bool measures(int64_t step) const { return step >= first_ && step < end_; }
  // The first step that is measured records its programs anew: it is not like the others.
  bool counts(int64_t step) const { return measures(step) && step >= first_ + records_; }

  const PlannedRun& planned_;
  Executor& executor_;
  int64_t records_;      // steps that are measured and do not count
  int64_t first_, end_;  // those that are measured
  int64_t warm_;         // the first step that is like those after it
  SpanLog log_;
  std::vector<double> measured_, unmeasured_;  // seconds of steps
  std::vector<int64_t> process_bytes_, context_bytes_;
};

// Of a run on the device "null".
ProfileReport predicted_profile(const PlannedRun& planned);

}  // namespace snug
