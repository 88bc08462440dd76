// The records of a run while it trains: the history in --out, and events for TensorBoard. A file
// that cannot be written ends no training: it is said once.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/resume.h"
#include "checkpoint/run_history.h"
#include "formats/tensorboard_writer.h"
#include "search/plan_run.h"
#include "snug/snug.h"

namespace snug {

// Throws a usage error, before anything is made, where `option` (--tensorboard, --profile-dir)
// names what cannot be a directory to write to. Empty: nothing was asked.
void require_writable(const std::filesystem::path& directory, std::string_view option);

class RunRecords {
 public:
  // Of a rank that is not the first: nothing is written. Throws a usage error where --tensorboard
  // cannot be written to. `observer` outlives this.
  RunRecords(const PlannedRun& planned, const TrainObserver& observer, const Resumed* resumed,
             bool first_rank);

  void stepped(const StepReport& report);
  void evaluated(int64_t step, double loss);
  void go_back_to(int64_t step);  // later steps will come once more

 private:
  void write(const std::string& line, int64_t step, std::span<const Scalar> scalars);

  const TrainObserver& observer_;
  std::filesystem::path directory_;
  std::optional<RunHistory> history_;
  std::optional<TensorboardWriter> events_;
  std::vector<Scalar> memory_;  // by category, at the peak
};

}  // namespace snug
