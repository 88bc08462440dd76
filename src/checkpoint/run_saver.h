// Saves a run's checkpoints while it trains: when they are due, whole, and no more of them than are
// to be kept. A checkpoint is written during the following steps (runtime/value_stream.h).
//
//   RunSaver saver(planned, executor, {.run = id, .data = samples.fingerprint()}, observer);
//   saver.look();                                         // before a step: says what has ended
//   if (saver.due(step)) saver.begin({.step = step, .position = feeder.position()});
//   saver.save(place);                                    // the last one, and waits for it
//
// The ranks of a job save together: each writes its pieces into a folder that rank 0 makes and
// shows when all are complete. They call the same, after the same steps.
#pragma once

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/run_directory.h"
#include "checkpoint/run_manifest.h"
#include "checkpoint/save_cost.h"
#include "comm/bootstrap.h"
#include "runtime/executor.h"
#include "runtime/job_links.h"
#include "runtime/value_stream.h"
#include "search/plan_run.h"
#include "snug/snug.h"

namespace snug {

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
  // `begun`: the run as a manifest, as far as it is known before the first step. Takes the staging
  // that the plan has for it.
  // Throws bad_input where a rank of `job` does not reach --out.
  RunSaver(const PlannedRun& planned, Executor& executor, RunManifest begun,
           const TrainObserver& observer, JobLinks* job = nullptr);
  ~RunSaver();  // waits for the one under way
  RunSaver(const RunSaver&) = delete;
  RunSaver& operator=(const RunSaver&) = delete;

  // After this step? Ranks may differ where it is by time: rank 0 decides.
  bool due(int64_t step) const;
  // Waits for the one under way, if there is one, and begins the next; with --save-sync waits for
  // that, too. A failure is only reported: training continues.
  void begin(const RunPlace& place);
  // Has the one under way ended? Then says how.
  void look();
  // Waits for the one under way, and says how it ended.
  void finish();
  // Now, and waits for it. Throws bad_input where it cannot be written; what was saved before is
  // untouched.
  void save(const RunPlace& place);
  // The same, but a failure is only said.
  void try_to_save(const RunPlace& place);

  // Host memory of its own.
  int64_t staging_bytes() const { return cost_.staging; }
  // Seconds of a save, as far as the disk's speed is known, after one that is under way.
  double expected_seconds() const;

  // The last checkpoint that is complete, and the command that resumes from it; none before there
  // is one.
  std::optional<std::filesystem::path> last() const;
  std::optional<std::string> resume_command() const;

 private:
  using Clock = std::chrono::steady_clock;
  // One that is being written.
  struct Saving {
    RunManifest manifest;
    ValueStream stream;
    std::atomic<int64_t> written = 0;  // bytes
    Clock::time_point began = Clock::now();
    double seconds = 0;  // that it took
    std::future<std::filesystem::path> path = {};
  };

  bool start(const RunPlace& place);
  bool start_or_say(const RunPlace& place);
  void say_failure(int64_t step, const Error& error) const;
  bool is_first() const { return job_ == nullptr || job_->is_first(); }
  Bootstrap* ranks() const { return ranks_ ? &*ranks_ : nullptr; }
  std::vector<std::string> together(Bootstrap* ranks,
                                    const std::function<std::string()>& work) const;
  void require_reach() const;
  std::filesystem::path write(Saving& saving, bool replaces_others) const;
  std::string write_pieces(Saving& saving, const std::filesystem::path& folder) const;
  std::filesystem::path show(StagedCheckpoint& staged, const RunManifest& manifest,
                             bool replaces_others) const;
  void wait() const;
  void end();
  void end_or_say();

  const Resolved& run_;
  Executor& executor_;
  JobLinks* job_;  // nullptr: there is no other rank
  // Of the threads that write.
  mutable std::optional<GroupBootstrap> ranks_;
  RunManifest manifest_;  // of the next one
  const TrainObserver& observer_;
  SaveCost cost_;
  std::vector<ValueId> state_;
  std::unique_ptr<Memory> staging_;        // where the plan has some
  Clock::time_point last_ = Clock::now();  // that one was begun
  std::optional<int64_t> saved_;           // the step of the last that is complete
  bool alone_ = false;                     // no other run's checkpoints are there any more
  std::unique_ptr<Saving> saving_;
};

}  // namespace snug
