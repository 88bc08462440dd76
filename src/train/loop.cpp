#include "train/loop.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "hal/device_failure.h"
#include "passes/passes.h"
#include "runtime/initialise.h"
#include "train/device_memory.h"
#include "train/disk_pace.h"
#include "train/nan_search.h"
#include "train/op_predictions.h"
#include "train/rank_pieces.h"
#include "train/run_records.h"
#include "train/run_saver.h"
#include "train/run_state.h"
#include "train/step_profiler.h"
#include "train/step_reports.h"
#include "train/trained_output.h"
#include "train/transfer_progress.h"

namespace snug {
namespace {

constexpr int64_t kMaxSkipped = 20;
constexpr size_t kTimedSteps = 1000;

using Clock = std::chrono::steady_clock;

void say(const TrainObserver& observer, const std::string& line) {
  if (observer.said) observer.said(line);
}

// Timing GEMMs at length gains about a hundredth: worth its minute where that is noticed. Others
// take what is cached, or a quick autotune.
Math math_of(const PlannedRun& planned) {
  constexpr double kWorthTuning = 1800;
  const Options& o = planned.run.options;
  Math math = planned.run.math;
  if (o.tune == "auto")
    math.quick_autotune = planned.step_seconds * static_cast<double>(o.steps) < kWorthTuning;
  return math;
}

// What comes behind a step.
struct Ahead {
  bool stops, saves;
};
constexpr int64_t kStops = 1, kSaves = 2;

// The loss of a step is not finite, and the run goes back.
struct BadStep {
  double loss;
  int64_t step, position;
};

class Training {
 public:
  Training(const PlannedRun& planned, const TrainObserver& observer, Samples& samples,
           Device& device, const Origin& origin, JobLinks* job)
      : job_(job),
        run_(planned.run),
        recompute_(planned.recompute),
        observer_(observer),
        samples_(samples),
        device_(device),
        executor_(planned.plan.module, device,
                  {.math = math_of(planned),
                   .offload_dir = run_.options.offload_dir,
                   .group_of = groups_of(job)}),
        feeder_(executor_, run_, samples),
        records_(planned, observer, origin.resumed, job == nullptr || job->is_first()) {
    if (executor_.disk() != nullptr)
      for (const std::string& note : executor_.disk()->notes()) say(observer, note);
    const Module& module = executor_.module();
    const MemoryBreakdown& memory = planned.plan.memory;
    const auto parameters = static_cast<double>(memory.trainable_params + memory.frozen_params);
    doing(fmt::format("initialising {} parameters", format_count(parameters)));
    initialise(executor_, static_cast<uint64_t>(run_.options.seed), what_is_loaded(module, origin));
    const bool has_base = run_.recipe.adapters.on();
    if (origin.weights && (!origin.resumed || has_base)) load(*origin.weights, Part::model);
    if (origin.adapter && !origin.resumed) load(*origin.adapter, Part::adapter);
    if (origin.resumed) {
      go_on(*origin.resumed);
    } else if (!origin.weights) {
      say(observer, fmt::format("weights: random, seed {}", run_.options.seed));
    }
    derive(executor_);
    step_seconds_.reserve(kTimedSteps);
    if (!run_.options.out.empty()) {
      // Now, while nothing is lost where ranks do not reach each other.
      if (job_ != nullptr) job_->host_group(kModelGroup);
      saver_.emplace(
          planned, executor_,
          RunManifest{.run = origin.resumed ? origin.resumed->manifest.run : new_run_id(),
                      .step = step_,
                      .data = samples.fingerprint()},
          observer, job_);
    }
    memory_.emplace(run_, executor_, saver_ ? saver_->staging_bytes() : 0);
    report_.context_bytes = memory_->context();
    memory_->require_context_within_budget();
    reports_.emplace(run_, executor_, feeder_, report_.context_bytes);
    if (run_.options.profile > 0) profiler_.emplace(planned, executor_, step_);
    for (const char* name :
         {shared_names::kLoss, shared_names::kGradNorm, shared_names::kLossScale})
      if (const ValueId id = module.find_shared(name); id.valid()) reported_.push_back(id);
  }

  TrainReport loop() {
    if (observer_.started) observer_.started();
    say_where_grace_is_short();
    clock_ = Clock::now();
    try {
      if (step_ == 0) evaluate(0);
      doing(fmt::format("step {} of {}", step_ + 1, run_.options.steps));
      while (step_ < run_.options.steps && !report_.stopped_early) {
        try {
          run_step();
          ++step_;
        } catch (const BadStep& bad) {
          roll_back(bad);
        }
      }
    } catch (const DeviceFailure& e) {
      end_of_saving();
      // What is reported late may be of the step before, as long as that is not settled.
      const std::string steps = pending_ ? fmt::format("{} or {}", pending_->step + 1, step_ + 1)
                                         : fmt::format("{}", step_ + 1);
      throw device_error("step {}: {}; the device was {}", steps, e.what(), executor_.last_place())
          .hint(fmt::format("{}; `snug doctor` looks at the GPU", what_is_saved()));
    }
    for (const std::string& line : memory_->lines()) say(observer_, line);
    // Whoever finds the last checkpoint finds the model, too.
    if (saver_ && report_.stopped_early) saver_->try_to_save(place());
    if (!report_.stopped_early || run_.options.grace.empty()) save();
    if (saver_) saver_->save(place());
    if (profiler_) report_.profile = profiler_->finish(report_.peak_bytes);
    compare_with_prediction();
    return report_;
  }

 private:
  void doing(const std::string& what) const {
    if (observer_.doing) observer_.doing(what);
  }

  static std::set<ValueId> what_is_loaded(const Module& module, const Origin& origin) {
    std::set<ValueId> loaded;
    if (origin.resumed) loaded.merge(loaded_run_state(module));
    if (origin.weights) loaded.merge(loaded_values(module, Part::model));
    if (origin.adapter) loaded.merge(loaded_values(module, Part::adapter));
    return loaded;
  }

  void load(const CheckpointReader& weights, Part part) {
    const std::string from = weights.path().string();
    const Module& module = executor_.module();
    const char* what = part == Part::adapter ? "adapter" : "weights";
    TransferProgress progress(fmt::format("reading {} from {}", what, from),
                              saved_bytes(module, part), observer_.doing);
    ValuePieces pieces(executor_);
    load_model(module, progress.into(pieces), weights, spellings_of(run_, part), part,
               has_more(run_.recipe.mesh));
    const std::string summary = progress.summary();
    say(observer_,
        fmt::format("{}: loaded from {}{}", what, from, summary.empty() ? "" : ", " + summary));
  }

  void go_on(const Resumed& resumed) {
    const std::string from = resumed.checkpoint.string();
    const Module& module = executor_.module();
    TransferProgress progress("reading " + from, run_state_bytes(module), observer_.doing);
    ValuePieces pieces(executor_);
    load_run_state(module, progress.into(pieces),
                   RunStateReader(resumed.checkpoint, resumed.manifest), run_.recipe.sharding,
                   has_more(run_.recipe.mesh));
    step_ = resumed.manifest.step;
    skipped_ = resumed.manifest.skipped;
    feeder_.rewind(resumed.manifest.position);
    feeder_.leave_out(resumed.manifest.bad);
    for (const std::string& line :
         lines_of(resumed, run_.options, device_.name(), progress.summary()))
      say(observer_, line);
  }

  // After the steps that are done.
  RunPlace place() const {
    return {.step = report_.steps,
            .position = feeder_.position(),
            .skipped = skipped_,
            .bad = feeder_.left_out()};
  }

  // A scheduler kills what is not done in time.
  void say_where_grace_is_short() const {
    const auto grace = parse_seconds(run_.options.grace);
    if (!grace || !saver_) return;
    const double step = step_cost(executor_.module(), run_.cost_model).step_seconds;
    const double save = saver_->expected_seconds();
    if (step + save <= *grace) return;
    say(observer_,
        fmt::format("--grace {}: a step of {} and a checkpoint of {} may take longer, and "
                    "a run that is killed goes on from the checkpoint before",
                    run_.options.grace, format_seconds(step), format_seconds(save)));
  }

  // A save beside the steps may have been complete before the device failed.
  void end_of_saving() {
    try {
      if (saver_) saver_->finish();
    } catch (const Error& e) {
      say(observer_, fmt::format("no checkpoint: {}", e.what()));
    }
  }

  std::string what_is_saved() const {
    const auto command = saver_ ? saver_->resume_command() : std::nullopt;
    return command ? fmt::format("`{}` goes on from the last checkpoint", *command)
                   : "nothing was saved yet";
  }

  // Comes after saving: timing ops leaves values behind that mean nothing.
  void compare_with_prediction() {
    if (!run_.options.explain && !run_.cost_model.measured()) return;
    Prediction prediction{
        .times_from = run_.cost_model.origin(),
        .predicted_ms = step_cost(executor_.module(), run_.cost_model).step_seconds * 1e3,
        .measured_ms = typical_step_ms(step_seconds_),
        .planned_bytes = executor_.planned_bytes(),
        .peak_bytes = report_.peak_bytes};
    if (!run_.options.explain) return say(observer_, line_of(prediction));
    if (const int64_t context = device_.context_bytes(); context > 0) {
      prediction.planned_device_bytes = executor_.planned_bytes() + memory_->planned_context();
      prediction.device_bytes = executor_.allocated_bytes() + context;
    }
    prediction.kinds = kinds_of_step(executor_, run_.cost_model);
    report_.prediction =
        PredictionReport{.table = table_of(prediction), .json = json_of(prediction)};
  }

  void run_step() {
    if (saver_) saver_->look();
    if (job_ != nullptr) job_->job().progress(step_, 0, fmt::format("step {}", step_ + 1));
    feeder_.pass_bad_samples();
    const int64_t position = feeder_.position();
    if (profiler_) profiler_->before(step_);
    const Module& module = executor_.module();
    const Program& last_program = module.program(module.step.back().programs.back());
    executor_.run_step([&](const Program& program) {
      // The device has work while the host looks at the last step, and no update is made before
      // the last one is known to be good.
      if (&program == &last_program) settle();
      feeder_.before(program, step_);
    });
    pending_ = Pending{step_, position, feeder_.step_targets(), executor_.read_later(reported_)};
    const int64_t done = step_ + 1;
    const Ahead ahead = look_ahead(done);
    report_.stopped_early = ahead.stops;
    const bool last = done == run_.options.steps || report_.stopped_early;
    const bool due = run_.options.eval_every > 0 && done % run_.options.eval_every == 0;
    const bool saves = !last && ahead.saves;
    if (last || due || saves || shares_host_memory(device_)) settle();
    if (last) report_.peak_bytes = executor_.measured_bytes();
    if (last || due) evaluate(done);
    if (saves) saver_->begin(place());
    if (saves && run_.options.save_sync) {
      settled_.reset();
      clock_ = Clock::now();
    }
  }

  // All ranks end after the same step, where one is told to, and save after those that rank 0 says.
  Ahead look_ahead(int64_t done) {
    const Ahead mine{.stops = observer_.stop != nullptr && *observer_.stop,
                     .saves = saver_ && saver_->due(done)};
    if (job_ == nullptr) return mine;
    const std::vector<int64_t> all =
        job_->job().gather((mine.stops ? kStops : 0) + (mine.saves ? kSaves : 0));
    return {.stops = std::ranges::any_of(all, [](int64_t told) { return (told & kStops) != 0; }),
            .saves = (all.front() & kSaves) != 0};
  }

  // Reports the step whose numbers are on their way, and stops at one that is not finite.
  void settle() {
    if (!pending_) return;
    const std::unique_ptr<Reading> last = std::move(settled_);
    const int64_t position = pending_->position;
    const StepReport r = report_of(*pending_, last.get());
    if (job_ != nullptr) job_->job().throw_if_ended();  // calls that were called off leave anything
    settled_ = std::move(pending_->reading);
    pending_.reset();
    if (report_.steps == 0) report_.first_loss = r.loss;
    if (std::isfinite(r.loss)) report_.last_loss = r.loss;
    report_.steps = r.step;
    if (step_seconds_.size() < step_seconds_.capacity()) step_seconds_.push_back(r.seconds);
    if (observer_.stepped) observer_.stepped(r);
    records_.stepped(r);
    if (profiler_) profiler_->settled(r);
    say_where_disk_is_slow();
    if (!std::isfinite(r.loss)) meet_non_finite_loss(r, position);
    stop_when_nothing_is_learned(r);
  }

  // Once.
  void say_where_disk_is_slow() {
    const DiskFile* disk = executor_.disk();
    if (disk == nullptr || said_slow_disk_) return;
    const std::string note =
        slow_disk_note(disk->reads(), disk->writes(), run_.cost_model.surroundings().disk);
    said_slow_disk_ = !note.empty();
    if (said_slow_disk_) say(observer_, note);
  }

  // `last`: what was read behind the step before, unless something else ran between.
  StepReport report_of(const Pending& pending, const Reading* last) {
    const double seconds = last != nullptr
                               ? pending.reading->seconds_since(*last)
                               : std::chrono::duration<double>(Clock::now() - clock_).count();
    if (pending.step == 0 || shares_host_memory(device_))
      report_.peak_bytes = executor_.measured_bytes();  // elsewhere it would stop the device
    return reports_->of(pending, seconds, report_.peak_bytes);
  }

  // As --on-nan says.
  void meet_non_finite_loss(const StepReport& r, int64_t position) {
    switch (on_nan_.action) {
      case OnNan::Action::skip:
        return say(observer_, fmt::format("the loss is {} at step {}: its update is left out",
                                          r.loss, r.step));
      case OnNan::Action::rollback:
        if (saver_) saver_->finish();
        if (rolled_back_ < on_nan_.times && saver_ && saver_->last())
          throw BadStep{r.loss, r.step, position};
        [[fallthrough]];
      case OnNan::Action::stop:
        stop_at_non_finite_loss(r, position);
    }
  }

  // To the last checkpoint; the step's samples are not taken again.
  void roll_back(const BadStep& bad) {
    ++rolled_back_;
    pending_.reset();
    settled_.reset();
    std::vector<int64_t> left_out = feeder_.left_out();
    left_out.push_back(bad.position);
    const Resumed last = last_checkpoint(*saver_->last());
    say(observer_,
        fmt::format("the loss is {} at step {}: back to step {}, without samples {} to {}",
                    bad.loss, bad.step, last.manifest.step, format_exact(bad.position),
                    format_exact(bad.position + run_.options.global_batch - 1)));
    std::set<ValueId> stays = frozen_values(executor_.module());
    stays.merge(loaded_run_state(executor_.module()));
    initialise(executor_, static_cast<uint64_t>(run_.options.seed), stays);
    go_on(last);
    records_.go_back_to(step_);
    derive(executor_);
    feeder_.leave_out(std::move(left_out));
    clock_ = Clock::now();
  }

  std::string first_non_finite_site(const StepReport& r, int64_t position) {
    // One op after another, stages would wait for each other's messages.
    if (run_.recipe.mesh.pp > 1) return "one of the stages (which one is not looked for)";
    say(observer_, fmt::format("the loss is {} at step {}: running the step again with checks",
                               r.loss, r.step));
    feeder_.rewind(position);
    const auto site = find_non_finite(executor_, [&] {
      executor_.run_step([&](const Program& program) { feeder_.before(program, r.step - 1); });
    });
    return first_site(site, job_ == nullptr ? nullptr : &job_->job());
  }

  // The update was skipped, and none was made since: these are the parameters from before the step.
  [[noreturn]] void stop_at_non_finite_loss(const StepReport& r, int64_t position) {
    const std::string first = first_non_finite_site(r, position);
    save();
    throw device_error(
        "the loss is {} at step {}; it first appears in {}; the parameters are as "
        "they were before the step{}",
        r.loss, r.step, first, report_.out.empty() ? "" : " and saved in " + report_.out)
        .hint(run_.recipe.precision == Dtype::f16
                  ? "fp16 ends at 65504: try --precision bf16, or a smaller --lr"
                  : "try a smaller --lr or a longer --warmup");
  }

  // A dynamic loss scale needs some skipped steps to find its place; without one, or at its floor,
  // nothing would ever change.
  void stop_when_nothing_is_learned(const StepReport& r) {
    const LossScale& scale = run_.recipe.loss_scale;
    const bool can_shrink = scale.dynamic && r.loss_scale > scale.floor;
    skipped_ = r.skipped && !can_shrink ? skipped_ + 1 : 0;
    if (skipped_ < kMaxSkipped) return;
    save();
    throw device_error("the gradient norm is {} for {} steps in a row, until step {}: {} in them{}",
                       r.grad_norm, skipped_, r.step,
                       run_.recipe.update_in_backward
                           ? "no parameter with such a gradient was updated"
                           : "no update was made",
                       report_.out.empty() ? "" : "; the parameters are saved in " + report_.out)
        .hint(!scale.dynamic && scale.on()
                  ? "try a smaller --loss-scale, or --precision bf16"
                  : "try --precision bf16 or fp32, or a smaller --lr from the start");
  }

  // Held-out loss, inside the same arena.
  void evaluate(int64_t step) {
    if (!samples_.has_held_out()) return;
    doing("evaluating");
    flush_updates(executor_);
    double sum = 0;
    int64_t targets = 0;
    const Sharding& ranks = run_.recipe.sharding;
    for (int64_t b = 0; b < run_.options.eval_batches; b += ranks.ranks) {
      // All ranks run as often; one that has no batch left counts nothing.
      const int64_t mine = b + ranks.rank;
      samples_.feed_held_out(executor_, mine * run_.build.batch,
                             mine < run_.options.eval_batches ? run_.build.batch : 0);
      targets += samples_.counted_targets();
      executor_.run(ProgramRole::evaluation);
      sum += executor_.read_scalar<float>(executor_.shared(shared_names::kLoss));
    }
    // All stages and tensor ranks have seen the same.
    if (job_ != nullptr)
      targets = job_->job().sum(targets) / (run_.recipe.mesh.pp * run_.recipe.mesh.tp);
    const double loss = sum / static_cast<double>(targets);
    if (report_.first_eval == 0) report_.first_eval = loss;
    report_.last_eval = loss;
    if (observer_.evaluated) observer_.evaluated(step, loss);
    records_.evaluated(step, loss);
    settled_.reset();
    clock_ = Clock::now();
  }

  void save() {
    if (run_.options.out.empty()) return;
    if (saver_) saver_->finish();  // it writes into the same directory
    flush_updates(executor_);
    ValuePieces pieces(executor_);
    save_from_ranks(run_, recompute_, executor_.module(), pieces, job_, observer_.doing);
    if (job_ != nullptr) job_->job().exchange("");  // nobody ends before the model is there
    report_.out = run_.options.out;
  }

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
  std::optional<Pending> pending_;
  std::unique_ptr<Reading> settled_;        // of the step before, to time the next one by
  Clock::time_point clock_ = Clock::now();  // where there is none
  std::vector<double> step_seconds_;        // of the first ones
  bool said_slow_disk_ = false;
  OnNan on_nan_ = parse_on_nan(run_.options.on_nan);
  int64_t rolled_back_ = 0;
  int64_t skipped_ = 0;  // steps in a row that nothing could be learned from
};

}  // namespace

TrainReport run_training(const PlannedRun& planned, const TrainObserver& observer, Samples& samples,
                         Device& device, const Origin& origin, JobLinks* job) {
  return Training(planned, observer, samples, device, origin, job).loop();
}

}  // namespace snug
