// `snug plan` behind its words: the report of a plan, and what to change when it does not fit.
#pragma once

#include <optional>

#include "plan/plan.h"
#include "plan/recompute_search.h"
#include "plan/report.h"
#include "snug/snug.h"
#include "train/resolve.h"

namespace snug {

// A run's plan, and what was chosen for it where recompute was left to Snug.
struct PlannedRun {
  Plan plan;
  std::optional<ChosenRecompute> chosen;
};

int64_t arena_of(const Plan& plan);

// Is how much is recomputed left to Snug? And then to the budget alone?
bool leaves_recompute_open(const Resolved& run);
bool budget_decides(const Resolved& run);
RecomputeSearch search_for(const Resolved& run);

// Where not even the most recompute fits the budget, the plan is the smallest there is. Throws
// does_not_fit when --recompute auto:BYTES asks for less than that.
PlannedRun plan_run(const Resolved& run);

PlanReport report_of(const PlannedRun& planned, const Resolved& run, bool colour);

// Throws does_not_fit, with the numbers and the cheapest changes, when the plan exceeds the budget.
void require_fit(const PlannedRun& planned, const Resolved& run);

}  // namespace snug
