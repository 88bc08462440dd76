#include "train/step_profiler.h"

#include <algorithm>

#include "base/error.h"
#include "base/median.h"
#include "cost/step_cost.h"
#include "profile/memory_timeline.h"
#include "profile/profile.h"
#include "profile/profile_files.h"
#include "report/profile_report.h"

namespace snug {
namespace {

constexpr int64_t kWarmUp =
    5;  // the first two load and record; the others are what is compared with

// Empty: no files.
std::filesystem::path directory_of(const Resolved& run) {
  const Options& o = run.options;
  std::filesystem::path directory = o.profile_dir;
  if (directory.empty() && !o.out.empty()) directory = std::filesystem::path(o.out) / "profile";
  const bool alone = ranks_of(run.recipe.mesh, run.recipe.sharding) < 2;
  if (directory.empty() || alone) return directory;
  return directory / fmt::format("rank-{}", run.here.rank);
}

Profile predicted_part(const PlannedRun& planned) {
  const Module& module = planned.plan.module;
  const CostModel& model = planned.run.cost_model;
  return {.module = &module,
          .predicted = predicted_spans(module, model),
          .times_from = model.origin(),
          .predicted_step = step_cost(module, model).step_seconds,
          .planned_bytes = module.arena_bytes[0]};
}

ProfileReport report_of_profile(const Profile& profile, const Resolved& run) {
  ProfileReport out{.table = table_of(profile), .json = json_of(profile)};
  const std::filesystem::path directory = directory_of(run);
  if (directory.empty()) return out;
  try {
    out.files = write_profile_files(profile, directory);
  } catch (const Error& error) {  // the training is done, and so is the table
    out.table += fmt::format("\nno files of the profile: {}\n", error.what());
  }
  return out;
}

}  // namespace

StepProfiler::StepProfiler(const PlannedRun& planned, Executor& executor, int64_t first_step)
    : planned_(planned),
      executor_(executor),
      records_(executor.device().stream() != nullptr ? 1 : 0),
      warm_(first_step + 2) {
  const Options& o = planned.run.options;
  const int64_t wanted = o.profile > 0 ? o.profile + records_ : 0;
  first_ = std::max(first_step, std::min(first_step + kWarmUp, o.steps - wanted));
  end_ = wanted == 0 ? first_ : std::min(o.steps, first_ + wanted);
  if (end_ - first_ <= records_) records_ = 0;  // a short run: better one that is unlike others
}

void StepProfiler::before(int64_t step) {
  if (step == first_ && measures(step)) executor_.measure_spans(&log_);
  if (step == end_ && end_ > first_) executor_.measure_spans(nullptr);
  log_.step = static_cast<int32_t>(step - first_ - records_);
  log_.run = 0;
}

void StepProfiler::settled(const StepReport& report) {
  if (end_ == first_) return;
  const int64_t step = report.step - 1;
  if (counts(step)) measured_.push_back(report.seconds);
  if (!measures(step) && step >= warm_) unmeasured_.push_back(report.seconds);
  process_bytes_.push_back(report.process_bytes);
  if (report.context_bytes > 0) context_bytes_.push_back(report.context_bytes);
}

ProfileReport StepProfiler::finish(int64_t peak_bytes) {
  executor_.measure_spans(nullptr);
  Profile profile = predicted_part(planned_);
  // Evaluations between the steps are none of theirs.
  const std::vector<int32_t> of_step = programs_in_step(*profile.module);
  std::erase_if(log_.spans, [&](const Span& span) {
    return span.step < 0 || std::ranges::find(of_step, span.program) == of_step.end();
  });
  profile.steps = std::ssize(measured_);
  if (!log_.spans.empty()) {
    double zero = log_.spans.front().begin;
    for (const Span& span : log_.spans) zero = std::min(zero, span.begin);
    for (Span& span : log_.spans) {
      span.begin -= zero;
      span.end -= zero;
    }
  }
  profile.measured = std::move(log_.spans);
  if (!measured_.empty()) profile.measured_step = median(measured_);
  if (!unmeasured_.empty()) profile.unmeasured_step = median(unmeasured_);
  profile.peak_bytes = peak_bytes;
  profile.process_bytes = process_bytes_;
  profile.context_bytes = context_bytes_;
  return report_of_profile(profile, planned_.run);
}

ProfileReport predicted_profile(const PlannedRun& planned) {
  return report_of_profile(predicted_part(planned), planned.run);
}

}  // namespace snug
