// A run's history.jsonl for a page: the numbers of its steps, as columns.
#pragma once

#include <filesystem>
#include <optional>

#include "page/columns.h"

namespace snug {

struct HistoryOnPage {
  // Columns by step; of more steps than a page shows the highest and lowest loss of neighbours. Null: there is none.
  Json json;
  int64_t last_step = 0;
  std::optional<double> first_loss, last_loss;  // of those that are finite
  std::optional<int64_t> not_finite_since;      // a step: no later one has a finite loss
  std::optional<double> first_eval, last_eval;
  int64_t evaluations = 0;
  double tokens_per_s = 0;                       // the median of the last steps
  int64_t allocated = 0, peak = 0, context = 0;  // as measured last
  double hours_left = 0;
  int64_t unreadable = 0;  // lines; the end of one that is being written is none
};

// Throws bad_input where no line of it is a step's or an evaluation's.
HistoryOnPage read_history(const std::filesystem::path& file, int64_t most = kMostSteps);

}  // namespace snug
