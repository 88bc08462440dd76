// Saves a run's checkpoints while it trains: when they are due, whole, and no more of them than are
// to be kept.
//
//   RunSaver saver(planned, executor, {.run = id, .data = samples.fingerprint()}, observer);
//   if (saver.due(step)) saver.save({.step = step, .position = feeder.position()});
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/executor.h"
#include "search/plan_run.h"
#include "snug/snug.h"
#include "train/run_manifest.h"

namespace snug {

// --save-every: after so many steps, or so much time; neither: at the end only.
struct SaveInterval {
  int64_t steps = 0;
  double seconds = 0;
  bool none() const { return steps == 0 && seconds == 0; }
};
// "100", "90s", "10min", "2h"; "" is none. Throws a usage error.
SaveInterval parse_save_interval(std::string_view text);

// "90s", "10min", "2h": seconds; none of anything else.
std::optional<double> parse_seconds(std::string_view text);

// --on-nan, as data.
struct OnNan {
  enum class Action : uint8_t { stop, skip, rollback } action = Action::stop;
  int64_t times = 0;  // that it goes back at most
};
// Throws a usage error.
OnNan parse_on_nan(std::string_view text);

// Sixteen bytes that no other run has, in hexadecimal.
std::string new_run_id();

// Where a run is between two steps.
struct RunPlace {
  int64_t step = 0;      // that many are done
  int64_t position = 0;  // of the data
  int64_t skipped = 0;   // in a row
  std::vector<int64_t> bad = {};
};

class RunSaver {
 public:
  // `begun`: the run as a manifest, as far as it is known before the first step.
  RunSaver(const PlannedRun& planned, Executor& executor, RunManifest begun,
           const TrainObserver& observer);

  // After this step?
  bool due(int64_t step) const;
  // Throws bad_input where it cannot be written; what was saved before is untouched.
  void save(const RunPlace& place);
  // The same, but a failure is only said: training goes on.
  void try_to_save(const RunPlace& place);

  // What a save takes, as far as the disk's speed is known.
  double expected_seconds() const;

  // The command that goes on from the last checkpoint; none before there is one.
  std::optional<std::string> resume_command() const;

 private:
  using Clock = std::chrono::steady_clock;

  const Resolved& run_;
  Executor& executor_;
  RunManifest manifest_;  // of the next one
  const TrainObserver& observer_;
  SaveInterval interval_;
  Clock::time_point last_ = Clock::now();  // that one was saved, or tried
  std::optional<int64_t> saved_;           // the step of the last
  bool alone_ = false;                     // no other run's checkpoints are there any more
};

}  // namespace snug
