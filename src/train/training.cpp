#include "train/training.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/rank_pieces.h"
#include "checkpoint/run_state.h"
#include "checkpoint/trained_output.h"
#include "checkpoint/transfer_progress.h"
#include "hal/device_failure.h"
#include "passes/shared_names.h"
#include "runtime/initialise.h"
#include "train/disk_pace.h"
#include "train/op_predictions.h"

namespace snug {
namespace {

constexpr size_t kTimedSteps = 1000;
constexpr int64_t kStops = 1, kSaves = 2;

// Timing GEMMs at length gains about a hundredth: worth its minute where that is noticed. Others
// take what is cached, or a quick autotune.
Math math_of(const PlannedRun& planned) {
  constexpr double kWorthTuning = 1800;
  const Options& o = planned.run.options;
  Math math = planned.run.math;
  if (!o.tune)
    math.quick_autotune = planned.step_seconds * static_cast<double>(o.steps) < kWorthTuning;
  return math;
}

}  // namespace

Training::Training(const PlannedRun& planned, const TrainObserver& observer, Samples& samples,
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
    for (const std::string& note : executor_.disk()->notes()) say(note);
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
    say(fmt::format("weights: random, seed {}", run_.options.seed));
  }
  derive(executor_);
  step_seconds_.reserve(kTimedSteps);
  if (!run_.options.out.empty()) {
    // Now, while nothing is lost where ranks do not reach each other.
    if (job_ != nullptr) job_->host_group(kModelGroup);
    saver_.emplace(planned, executor_,
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
  for (const char* name : {shared_names::kLoss, shared_names::kGradNorm, shared_names::kLossScale})
    if (const ValueId id = module.find_shared(name); id.valid()) reported_.push_back(id);
}

void Training::say(const std::string& line) const {
  if (observer_.said) observer_.said(line);
}

void Training::doing(const std::string& what) const {
  if (observer_.doing) observer_.doing(what);
}

std::set<ValueId> Training::what_is_loaded(const Module& module, const Origin& origin) {
  std::set<ValueId> loaded;
  if (origin.resumed) loaded.merge(loaded_run_state(module));
  if (origin.weights) loaded.merge(loaded_values(module, Part::model));
  if (origin.adapter) loaded.merge(loaded_values(module, Part::adapter));
  return loaded;
}

void Training::load(const CheckpointReader& weights, Part part) {
  const std::string from = weights.path().string();
  const Module& module = executor_.module();
  const char* what = part == Part::adapter ? "adapter" : "weights";
  TransferProgress progress(fmt::format("reading {} from {}", what, from),
                            saved_bytes(module, part), observer_.doing);
  ValuePieces pieces(executor_);
  load_model(module, progress.into(pieces), weights, spellings_of(run_, part), part,
             has_more(run_.recipe.mesh));
  const std::string summary = progress.summary();
  say(fmt::format("{}: loaded from {}{}", what, from, summary.empty() ? "" : ", " + summary));
}

void Training::go_on(const Resumed& resumed) {
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
    say(line);
}

// Once, before the first step.
void Training::begin() {
  if (begun_) return;
  begun_ = true;
  if (observer_.started) observer_.started();
  say_where_grace_is_short();
  clock_ = Clock::now();
  on_device([&] {
    if (step_ == 0 && !evaluated_) evaluate(0);
  });
  doing(fmt::format("step {} of {}", step_ + 1, run_.options.steps));
}

// A failure of the device is named by the step, and a step that cannot be learned from may lead
// back.
template <typename Work>
void Training::on_device(const Work& work) {
  try {
    try {
      work();
    } catch (const BadStep& bad) {
      roll_back(bad);
    }
  } catch (const DeviceFailure& e) {
    end_of_saving();
    // A late error may be of the step before, as long as that is not settled.
    const std::string steps = pending_ ? fmt::format("{} or {}", pending_->step + 1, step_ + 1)
                                       : fmt::format("{}", step_ + 1);
    throw device_error("step {}: {}; the device was {}", steps, e.what(), executor_.last_place())
        .hint(fmt::format("{}; `snug doctor` looks at the GPU", what_is_saved()));
  }
}

void Training::step() {
  begin();
  on_device([&] {
    run_step();
    ++step_;
  });
}

void Training::settle_now() {
  on_device([&] { settle(); });
}

void Training::flush() {
  if (flushed_) return;
  on_device([&] { flush_updates(executor_); });
  flushed_ = true;
}

HeldOutLoss Training::evaluate_now() {
  settle_now();
  HeldOutLoss out;
  on_device([&] { out = evaluate(step_); });
  return out;
}

void Training::save_now() {
  settle_now();
  save();
  restart_clock();
}

void Training::save_checkpoint() {
  settle_now();
  saver_->save(place());
  restart_clock();
}

TrainReport Training::finish() {
  begin();
  settle_now();
  for (const std::string& line : memory_->lines()) say(line);
  // A reader that finds the last checkpoint finds the model, too.
  if (saver_ && report_.stopped_early) saver_->try_to_save(place());
  if (!report_.stopped_early || !run_.options.grace.given()) save();
  if (saver_) saver_->save(place());
  if (profiler_) report_.profile = profiler_->finish(report_.peak_bytes);
  compare_with_prediction();
  return report_;
}

// The next step is timed from now on.
void Training::restart_clock() {
  settled_.reset();
  clock_ = Clock::now();
}

// After the steps that are done.
RunPlace Training::place() const {
  return {.step = report_.steps,
          .position = feeder_.position(),
          .skipped = skipped_,
          .bad = feeder_.left_out()};
}

// A scheduler kills what is not done in time.
void Training::say_where_grace_is_short() const {
  const std::optional<double> grace = run_.options.grace.seconds;
  if (!grace || !saver_) return;
  const double step = step_cost(executor_.module(), run_.cost_model).step_seconds;
  const double save = saver_->expected_seconds();
  if (step + save <= *grace) return;
  say(
      fmt::format("--grace {}: a step of {} and a checkpoint of {} may take longer, and "
                  "a run that is killed continues from the checkpoint before",
                  text(run_.options.grace), format_seconds(step), format_seconds(save)));
}

// Comes after saving: timing ops leaves meaningless values.
void Training::compare_with_prediction() {
  if (!run_.options.explain && !run_.cost_model.measured()) return;
  Prediction prediction{
      .times_from = run_.cost_model.origin(),
      .predicted_ms = step_cost(executor_.module(), run_.cost_model).step_seconds * 1e3,
      .measured_ms = typical_step_ms(step_seconds_),
      .planned_bytes = executor_.planned_bytes(),
      .peak_bytes = report_.peak_bytes};
  if (!run_.options.explain) return say(line_of(prediction));
  if (const int64_t context = device_.context_bytes(); context > 0) {
    prediction.planned_device_bytes = executor_.planned_bytes() + memory_->planned_context();
    prediction.device_bytes = executor_.allocated_bytes() + context;
  }
  prediction.kinds = kinds_of_step(executor_, run_.cost_model);
  report_.prediction = PredictionReport{.table = table_of(prediction), .json = json_of(prediction)};
}

void Training::run_step() {
  flushed_ = false;
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
  if (saves && run_.options.save_sync) restart_clock();
}

// All ranks end after the same step, where one is told to, and save after those that rank 0 says.
Training::Ahead Training::look_ahead(int64_t done) {
  const Ahead mine{.stops = observer_.stop != nullptr && *observer_.stop,
                   .saves = saver_ && saver_->due(done)};
  if (job_ == nullptr) return mine;
  const std::vector<int64_t> all =
      job_->job().gather((mine.stops ? kStops : 0) + (mine.saves ? kSaves : 0));
  return {.stops = std::ranges::any_of(all, [](int64_t told) { return (told & kStops) != 0; }),
          .saves = (all.front() & kSaves) != 0};
}

// Reports the step whose numbers are on their way, and stops at one that is not finite.
void Training::settle() {
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
  last_step_ = r;
  if (observer_.stepped) observer_.stepped(r);
  records_.stepped(r);
  if (profiler_) profiler_->settled(r);
  say_where_disk_is_slow();
  if (!std::isfinite(r.loss)) meet_non_finite_loss(r, position);
  stop_when_nothing_is_learned(r);
}

// Once.
void Training::say_where_disk_is_slow() {
  const DiskFile* disk = executor_.disk();
  if (disk == nullptr || said_slow_disk_) return;
  const std::string note =
      slow_disk_note(disk->reads(), disk->writes(), run_.cost_model.surroundings().disk);
  said_slow_disk_ = !note.empty();
  if (said_slow_disk_) say(note);
}

// `last`: the reading after the step before, unless something else ran between.
StepReport Training::report_of(const Pending& pending, const Reading* last) {
  const double seconds = last != nullptr
                             ? pending.reading->seconds_since(*last)
                             : std::chrono::duration<double>(Clock::now() - clock_).count();
  if (pending.step == 0 || shares_host_memory(device_))
    report_.peak_bytes = executor_.measured_bytes();  // at other steps it would stop the device
  return reports_->of(pending, seconds, report_.peak_bytes);
}

// Held-out loss, inside the same arena.
HeldOutLoss Training::evaluate(int64_t step) {
  evaluated_ = true;
  if (!samples_.has_held_out()) return {};
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
  restart_clock();
  return {loss, targets};
}

void Training::save() {
  if (run_.options.out.empty()) return;
  if (saver_) saver_->finish();  // it writes into the same directory
  flush_updates(executor_);
  ValuePieces pieces(executor_);
  save_from_ranks(run_, recompute_, executor_.module(), pieces, job_, observer_.doing);
  if (job_ != nullptr) job_->job().exchange("");  // no rank ends before the model is there
  report_.out = run_.options.out;
}

}  // namespace snug
