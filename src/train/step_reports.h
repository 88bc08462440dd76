// The report of a step, made when its metrics are fetched: loss, pace, and the memory around it.
//
//   StepReports reports(run, executor, feeder);
//   const StepReport r = reports.of(pending, seconds, peak_bytes);
#pragma once

#include <chrono>
#include <memory>

#include "hal/device.h"
#include "recipe/resolve.h"
#include "runtime/executor.h"
#include "snug/snug.h"
#include "train/feeder.h"

namespace snug {

// The metrics of a step, fetched asynchronously while the next step runs.
struct Pending {
  int64_t step = 0;
  int64_t position = 0;              // of the data, where the step began
  int64_t targets = 0;               // that count
  std::unique_ptr<Reading> reading;  // loss, norm and, where there is one, the loss scale
};

class StepReports {
 public:
  // `context`: what a GPU's driver and libraries took before the first step. All outlive this.
  StepReports(const Resolved& run, const Executor& executor, const Feeder& feeder, int64_t context)
      : run_(run), executor_(executor), feeder_(feeder) {
    gauges_.context_bytes = context;
  }

  // `seconds`: that the step took. `peak_bytes`: measured in the arena.
  StepReport of(const Pending& pending, double seconds, int64_t peak_bytes);

 private:
  void look_around();

  const Resolved& run_;
  const Executor& executor_;
  const Feeder& feeder_;
  double pace_ = 0;    // seconds of a step, the last ones most
  StepReport gauges_;  // as looked at last: context, process, utilisation, power, clock
  std::chrono::steady_clock::time_point looked_;
};

}  // namespace snug
