#include "train/run_saver.h"

#include <array>
#include <random>
#include <utility>

#include "base/error.h"
#include "base/number.h"
#include "base/staged_file.h"
#include "base/units.h"
#include "runtime/initialise.h"
#include "train/model_directory.h"
#include "train/run_directory.h"
#include "train/run_state.h"
#include "train/transfer_progress.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

void write_text(const fs::path& path, std::string_view text) {
  StagedFile file(path);
  file.write(text);
  file.commit();
}

// What names something here is found from everywhere.
Options with_absolute_paths(Options o) {
  for (std::string* path : {&o.model, &o.data, &o.eval_data, &o.offload_dir}) {
    std::error_code failure;
    if (!path->empty() && fs::exists(*path, failure)) *path = fs::absolute(*path, failure).string();
  }
  return o;
}

}  // namespace

std::optional<double> parse_seconds(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, double>, 4> kUnits{
      {{"min", 60}, {"s", 1}, {"h", 3600}, {"m", 60}}};
  for (const auto& [unit, seconds] : kUnits) {
    double number = 0;
    if (text.ends_with(unit) && read_number(text.substr(0, text.size() - unit.size()), number) &&
        number > 0 && number * seconds < 1e9)
      return number * seconds;
  }
  return std::nullopt;
}

SaveInterval parse_save_interval(std::string_view text) {
  if (text.empty()) return {};
  SaveInterval interval;
  if (read_number(text, interval.steps) && interval.steps > 0) return interval;
  if (const auto seconds = parse_seconds(text)) return {.seconds = *seconds};
  throw usage_error("--save-every '{}' is neither a number of steps nor a time", text)
      .hint("for example --save-every 100, or 10min, 90s, 2h");
}

OnNan parse_on_nan(std::string_view text) {
  constexpr std::string_view kRollback = "rollback";
  constexpr int64_t kTimes = 3;
  if (text == "stop") return {};
  if (text == "skip") return {.action = OnNan::Action::skip};
  OnNan on{.action = OnNan::Action::rollback, .times = kTimes};
  if (text == kRollback) return on;
  const bool numbered = text.starts_with(kRollback) && text[kRollback.size()] == ':' &&
                        read_number(text.substr(kRollback.size() + 1), on.times) && on.times > 0;
  if (numbered) return on;
  throw usage_error("--on-nan '{}' is not stop, skip, rollback or rollback:N", text);
}

std::string new_run_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 4; ++i) id += fmt::format("{:08x}", random());
  return id;
}

RunSaver::RunSaver(const PlannedRun& planned, Executor& executor, RunManifest begun,
                   const TrainObserver& observer)
    : run_(planned.run),
      executor_(executor),
      manifest_(std::move(begun)),
      observer_(observer),
      interval_(parse_save_interval(run_.options.save_every)) {
  // A run that goes on where it was saved has that to go back to.
  if (const int64_t at = manifest_.step;
      at > 0 && fs::exists(fs::path(run_.options.out) / checkpoint_name(at)))
    saved_ = at;
  manifest_.device = executor.device().name();
  manifest_.asked = with_absolute_paths(as_asked(run_));
  manifest_.settled = with_absolute_paths(as_settled(run_, planned.recompute));
  if (interval_.none() || !observer.said) return;
  observer.said(fmt::format(
      "checkpoints: every {} in {}, {} each, in which training waits for about {}",
      interval_.steps > 0 ? counted(interval_.steps, "step") : format_seconds(interval_.seconds),
      run_.options.out, format_bytes(run_state_bytes(executor.module())),
      format_seconds(expected_seconds())));
}

bool RunSaver::due(int64_t step) const {
  if (interval_.steps > 0) return step % interval_.steps == 0;
  const std::chrono::duration<double> since = Clock::now() - last_;
  return interval_.seconds > 0 && since.count() >= interval_.seconds;
}

void RunSaver::save(const RunPlace& place) {
  if (saved_ == place.step) return;
  last_ = Clock::now();
  const fs::path directory = run_.options.out;
  const Module& module = executor_.module();
  TransferProgress progress("saving a checkpoint", run_state_bytes(module), observer_.doing);
  flush_updates(executor_);
  manifest_.step = place.step;
  manifest_.position = place.position;
  manifest_.skipped = place.skipped;
  manifest_.bad = place.bad;
  StagedCheckpoint staged(directory, place.step);
  ValuePieces pieces(executor_);
  manifest_.pieces =
      save_run_state(module, progress.pieces_of(pieces), staged.folder() / kStateFile);
  write_text(staged.folder() / kConfigFile, run_.model.config_json(saved_dtype(run_.recipe)));
  write_text(staged.folder() / kManifestFile, manifest_text(manifest_));
  const fs::path saved = staged.commit();
  saved_ = place.step;
  remove_old_checkpoints(directory,
                         {.run = manifest_.run,
                          .keep = run_.options.keep,
                          .keep_every = run_.options.keep_every,
                          .others = run_.options.overwrite && !std::exchange(alone_, true)});
  const std::string summary = progress.summary();
  if (observer_.said) {
    observer_.said(
        fmt::format("checkpoint: {}{}", saved.string(), summary.empty() ? "" : ", " + summary));
  }
}

void RunSaver::try_to_save(const RunPlace& place) {
  try {
    save(place);
  } catch (const Error& e) {
    if (e.code() != ExitCode::bad_input) throw;
    if (observer_.said)
      observer_.said(fmt::format("no checkpoint of step {}: {}{}", place.step, e.what(),
                                 saved_ ? "; the one before is whole" : ""));
  }
}

double RunSaver::expected_seconds() const {
  return static_cast<double>(run_state_bytes(executor_.module())) /
         run_.cost_model.surroundings().disk.write;
}

std::optional<std::string> RunSaver::resume_command() const {
  if (!saved_) return std::nullopt;
  return fmt::format("snug train --resume {}", run_.options.out);
}

}  // namespace snug
