// A training's reactions to a step that goes wrong: a device that fails, a loss that is not finite,
// nothing learned.
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "checkpoint/run_state.h"
#include "runtime/initialise.h"
#include "train/nan_search.h"
#include "train/training.h"

namespace snug {
namespace {

constexpr int64_t kMaxSkipped = 20;

}  // namespace

// A save during the steps may have been complete before the device failed.
void Training::end_of_saving() {
  try {
    if (saver_) saver_->finish();
  } catch (const Error& e) {
    say(fmt::format("no checkpoint: {}", e.what()));
  }
}

std::string Training::what_is_saved() const {
  const auto command = saver_ ? saver_->resume_command() : std::nullopt;
  return command ? fmt::format("`{}` continues from the last checkpoint", *command)
                 : "nothing was saved yet";
}

// As --on-nan says.
void Training::meet_non_finite_loss(const StepReport& r, int64_t position) {
  switch (on_nan_.action) {
    case OnNan::Action::skip:
      return say(fmt::format("the loss is {} at step {}: its update is left out", r.loss, r.step));
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
void Training::roll_back(const BadStep& bad) {
  ++rolled_back_;
  pending_.reset();
  settled_.reset();
  std::vector<int64_t> left_out = feeder_.left_out();
  left_out.push_back(bad.position);
  const Resumed last = last_checkpoint(*saver_->last());
  say(fmt::format("the loss is {} at step {}: back to step {}, without samples {} to {}", bad.loss,
                  bad.step, last.manifest.step, format_exact(bad.position),
                  format_exact(bad.position + run_.options.global_batch - 1)));
  std::set<ValueId> stays = frozen_values(executor_.module());
  stays.merge(loaded_run_state(executor_.module()));
  initialise(executor_, static_cast<uint64_t>(run_.options.seed), stays);
  go_on(last);
  report_.steps = step_;
  records_.go_back_to(step_);
  derive(executor_);
  feeder_.leave_out(std::move(left_out));
  clock_ = Clock::now();
}

std::string Training::first_non_finite_site(const StepReport& r, int64_t position) {
  // One op after another, stages would wait for each other's messages.
  if (run_.recipe.mesh.pp > 1) return "a pipeline stage (stage unknown)";
  say(fmt::format("the loss is {} at step {}: running the step again with checks", r.loss, r.step));
  feeder_.rewind(position);
  const auto site = find_non_finite(executor_, [&] {
    executor_.run_step([&](const Program& program) { feeder_.before(program, r.step - 1); });
  });
  return first_site(site, job_ == nullptr ? nullptr : &job_->job());
}

// The update was skipped, and none was made since: these are the parameters from before the step.
void Training::stop_at_non_finite_loss(const StepReport& r, int64_t position) {
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
void Training::stop_when_nothing_is_learned(const StepReport& r) {
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

}  // namespace snug
