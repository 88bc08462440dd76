// A run as a subject of a page: its plan, and what it has recorded so far.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "page/history.h"
#include "page/plan_subject.h"

namespace snug {

struct RunOnPage {
  std::filesystem::path directory;
  std::optional<HistoryOnPage> history;  // none: there is no history.jsonl
  bool going = false;                    // a process trains there now
  int64_t steps = 0;                     // that it will do; 0: not known
  int64_t saved_step = 0;                // of its newest checkpoint; 0: there is none
  int64_t ranks = 0;                     // 0: not known
  std::string device;                    // that it runs on
  std::optional<PlanOnPage> plan;        // none: nothing says what was planned
  std::vector<std::string> notes;        // why something is missing
};

Json run_subject(const RunOnPage& run);

// The last name of a path, which "." and "runs/a/" have too: that of the directory that they mean.
std::string name_of_path(const std::filesystem::path& path);

}  // namespace snug
