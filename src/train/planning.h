// `snug plan` behind its words: the report of a plan, and what to change when it does not fit.
#pragma once

#include "plan/plan.h"
#include "snug/snug.h"
#include "train/resolve.h"

namespace snug {

PlanReport report_of(const Plan& plan, const Resolved& run, bool colour);

// Throws does_not_fit, with the numbers and the cheapest changes, when the plan exceeds the budget.
void require_fit(const Plan& plan, const Resolved& run);

}  // namespace snug
