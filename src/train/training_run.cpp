// A training as the body of a Run.
#include <chrono>
#include <cmath>
#include <optional>

#include "base/current_error.h"
#include "base/error.h"
#include "base/units.h"
#include "machine/ranks.h"
#include "runtime/null_executor.h"
#include "train/open_training.h"
#include "train/run_body.h"
#include "train/step_profiler.h"
#include "train/training.h"

namespace snug {
namespace {

class TrainingRun final : public RunBody {
 public:
  // `job`: none where it is alone. It outlives this, or is handed over.
  TrainingRun(const Options& options, TrainObserver observer, Job* job)
      : observer_(std::move(observer)), open_(options, observer_, job) {
    if (open_.device) {
      training_.emplace(*open_.planned, observer_, *open_.samples, *open_.device, open_.origin(),
                        open_.links ? &*open_.links : nullptr);
    } else {
      follow();
    }
  }
  void take(std::unique_ptr<Job> job) { job_ = std::move(job); }

  void require(RunCall call) const override {
    const Options& o = open_.planned->run.options;
    if (!training_ && call != RunCall::finish)
      throw usage_error("the device \"null\" computes nothing");
    if (call == RunCall::step && done())
      throw usage_error("the run is done: {} of {} steps", steps(), o.steps);
    if (call == RunCall::evaluate && !open_.samples->has_held_out())
      throw usage_error("the run has no held-out data").hint("give holdout, or eval_data");
    if ((call == RunCall::save || call == RunCall::save_checkpoint) && o.out.empty())
      throw usage_error("the run has no directory to save to").hint("give out");
  }

  bool done() const override { return !training_ || training_->done(); }
  int64_t steps() const override { return training_ ? training_->steps() : 0; }
  void step() override { training_->step(); }

  std::optional<StepReport> metrics() override {
    training_->settle_now();
    return training_->last_step();
  }

  EvalReport evaluate() override {
    const auto start = std::chrono::steady_clock::now();
    const HeldOutLoss held_out = training_->evaluate_now();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    const Resolved& run = open_.planned->run;
    return {.loss = held_out.loss,
            .perplexity = std::exp(held_out.loss),
            .tokens = held_out.targets,
            .windows = run.options.eval_batches * run.build.batch,
            .all_windows = run.options.eval_batches * run.build.batch,
            .seconds = taken.count(),
            .tokens_per_s = static_cast<double>(held_out.targets) / taken.count(),
            .planned_bytes = training_->executor().planned_bytes(),
            .peak_bytes = training_->peak_bytes()};
  }

  Executor& executor(bool flushed) override {
    training_->settle_now();
    if (flushed) training_->flush();
    return training_->executor();
  }

  void save() override { training_->save_now(); }
  void save_checkpoint() override { training_->save_checkpoint(); }
  TrainReport finish() override { return training_ ? training_->finish() : predicted_; }
  const Module& module() const override { return open_.planned->plan.module; }
  std::unique_ptr<Job> take_job() override { return std::move(job_); }
  // Of several ranks one may have failed alone.
  bool survives(RunCall call, const Error& error) const override {
    const bool saves = call == RunCall::save || call == RunCall::save_checkpoint;
    return saves && !job_ && error.code() == ExitCode::bad_input;
  }

 private:
  // On the device "null" ops are followed over their bytes.
  void follow() {
    const PlannedRun& planned = *open_.planned;
    const NullRun followed = run_null(planned.plan.module);
    if (observer_.said) {
      observer_.said(fmt::format("null device: followed {} ops over {} bytes; nothing was computed",
                                 format_exact(followed.ops), format_exact(followed.high_water[0])));
    }
    if (planned.run.options.profile > 0) predicted_.profile = predicted_profile(planned);
  }

  std::unique_ptr<Job> job_;
  TrainObserver observer_;
  OpenTraining open_;
  std::optional<Training> training_;  // none: the device is "null"
  TrainReport predicted_;
};

}  // namespace

std::unique_ptr<RunBody> open_training(const Options& options, TrainObserver observer) {
  std::unique_ptr<Job> job = join_job(options);
  if (!job) return std::make_unique<TrainingRun>(options, std::move(observer), nullptr);
  std::unique_ptr<TrainingRun> run;
  try {
    require_same_run(*job, options);
    Options mine = options;
    mine.ranks = job->ranks();
    run = std::make_unique<TrainingRun>(mine, std::move(observer), job.get());
  } catch (...) {
    throw job->fail(current_error());
  }
  run->take(std::move(job));
  return run;
}

}  // namespace snug
