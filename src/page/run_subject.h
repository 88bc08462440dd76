// A run as a subject of a page: what it has written down so far, beside its plan.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "page/plan_subject.h"

namespace snug {

struct RunOnPage {
  std::filesystem::path directory;
  bool going = false;              // a process trains there now
  int64_t steps = 0;               // that it will do; 0: not known
  std::string device;              // that it runs on
  std::optional<PlanOnPage> plan;  // none: nothing says what was planned
  std::vector<std::string> notes;  // why something is missing
};

// Throws bad_input where its history has no step.
Json run_subject(const RunOnPage& run);

}  // namespace snug
