// What to change when a run does not fit, and what each change would give: real plans, not guesses.
#pragma once

#include <vector>

#include "plan/plan.h"
#include "plan/report.h"
#include "train/resolve.h"

namespace snug {

// Real plans, each smaller than `plan` by one change; those that keep the numbers come first.
std::vector<Advice> advice_for(const Resolved& run, const Plan& plan);

}  // namespace snug
