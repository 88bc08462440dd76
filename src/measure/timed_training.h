// A training that is stepped and timed, and keeps nothing: for measurements.
//
//   TimedTraining training(run, *device);
//   training.step_ms(10);
//   for (const auto& [program, times] : programs_of_step(training.module())) ...
#pragma once

#include "runtime/executor.h"
#include "search/plan_run.h"
#include "train/feeder.h"

namespace snug {

class TimedTraining {
 public:
  // Plans, allocates, and starts from random weights. `device` outlives this.
  TimedTraining(const Resolved& run, Device& device);

  void run_steps(int64_t count);  // and waits for them
  // Milliseconds of a step after a few to warm up, with the device busy from one to the next; mean.
  double step_ms(int64_t steps);

  const Resolved& run() const { return planned_.run; }  // with what was chosen
  const Module& module() const { return planned_.plan.module; }
  Executor& executor() { return executor_; }
  int64_t tokens_per_step() const { return feeder_.tokens_per_step(); }

 private:
  PlannedRun planned_;
  Samples samples_;
  Executor executor_;
  Feeder feeder_;
  int64_t steps_ = 0;
};

}  // namespace snug
