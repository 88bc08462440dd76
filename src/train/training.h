// A training that is planned, allocated and loaded: its steps, and the evaluations, checkpoints and
// reports between them.
//
//   Samples samples = Samples::for_training(planned.run);
//   Training training(planned, observer, samples, *device, {.weights = &weights});
//   while (!training.done()) training.step();
//   TrainReport report = training.finish();
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/resume.h"
#include "checkpoint/run_saver.h"
#include "hal/device.h"
#include "machine/device_memory.h"
#include "runtime/job_links.h"
#include "search/plan_run.h"
#include "snug/snug.h"
#include "train/feeder.h"
#include "train/run_records.h"
#include "train/step_profiler.h"
#include "train/step_reports.h"

namespace snug {

// The weights and state that a run begins with; random numbers where there are none.
struct Origin {
  const CheckpointReader* weights = nullptr;  // the model's
  const CheckpointReader* adapter = nullptr;
  const Resumed* resumed = nullptr;  // the rest comes from there: all but frozen values
};

// Over held-out data: sums of all ranks.
struct HeldOutLoss {
  double loss = 0;  // mean per target
  int64_t targets = 0;
};

class Training {
 public:
  // As planned; as a rank of a job where `job` is not nullptr. All of these outlive it.
  Training(const PlannedRun& planned, const TrainObserver& observer, Samples& samples,
           Device& device, const Origin& origin, JobLinks* job = nullptr);

  // One step, and the evaluation and checkpoint after it. A step whose loss is not finite may
  // return to the last checkpoint instead.
  void step();
  bool done() const { return step_ >= run_.options.steps || report_.stopped_early; }
  int64_t steps() const { return step_; }
  // Waits for the numbers of the last step.
  void settle_now();
  const std::optional<StepReport>& last_step() const { return last_step_; }
  // After settle_now(): makes the updates that are due.
  void flush();

  HeldOutLoss evaluate_now();
  // The model, and a checkpoint, to --out.
  void save_now();
  void save_checkpoint();
  // After the last step: saves, and what there is to say of the whole.
  TrainReport finish();

  Executor& executor() { return executor_; }
  int64_t peak_bytes() const { return report_.peak_bytes; }

 private:
  using Clock = std::chrono::steady_clock;

  // Actions after a step.
  struct Ahead {
    bool stops, saves;
  };
  // The loss of a step is not finite, and the run goes back.
  struct BadStep {
    double loss;
    int64_t step, position;
  };

  void begin();
  template <typename Work>
  void on_device(const Work& work);
  void say(const std::string& line) const;
  void doing(const std::string& what) const;
  static std::set<ValueId> what_is_loaded(const Module& module, const Origin& origin);
  void load(const CheckpointReader& weights, Part part);
  void go_on(const Resumed& resumed);
  RunPlace place() const;
  void say_where_grace_is_short() const;
  void end_of_saving();
  std::string what_is_saved() const;
  void compare_with_prediction();
  void run_step();
  Ahead look_ahead(int64_t done);
  void settle();
  void say_where_disk_is_slow();
  StepReport report_of(const Pending& pending, const Reading* last);
  void meet_non_finite_loss(const StepReport& r, int64_t position);
  void roll_back(const BadStep& bad);
  std::string first_non_finite_site(const StepReport& r, int64_t position);
  [[noreturn]] void stop_at_non_finite_loss(const StepReport& r, int64_t position);
  void stop_when_nothing_is_learned(const StepReport& r);
  HeldOutLoss evaluate(int64_t step);
  void restart_clock();
  void save();

  JobLinks* job_;  // nullptr: there is no other rank
  const Resolved& run_;
  const RecomputePolicy& recompute_;  // as planned
  const TrainObserver& observer_;
  Samples& samples_;
  Device& device_;
  Executor executor_;
  Feeder feeder_;
  RunRecords records_;
  std::optional<StepReports> reports_;
  std::optional<StepProfiler> profiler_;  // with --profile
  std::optional<RunSaver> saver_;         // where there is an --out
  std::optional<DeviceMemory> memory_;
  std::vector<ValueId> reported_;  // loss, norm and, where there is one, the loss scale
  TrainReport report_;
  int64_t step_ = 0;
  bool begun_ = false, evaluated_ = false, flushed_ = false;
  std::optional<StepReport> last_step_;
  std::optional<Pending> pending_;
  std::unique_ptr<Reading> settled_;        // of the step before, to time the next one by
  Clock::time_point clock_ = Clock::now();  // where there is none
  std::vector<double> step_seconds_;        // of the first ones
  bool said_slow_disk_ = false;
  OnNan on_nan_ = run_.options.on_nan;
  int64_t rolled_back_ = 0;
  int64_t skipped_ = 0;  // steps in a row that nothing could be learned from
};

}  // namespace snug
