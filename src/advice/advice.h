// Changes of a run, and the effect of each: real plans, not guesses.
//
//   advice_for(plan_run(run))[0].change;   // "--precision bf16 --master none"
#pragma once

#include <vector>

#include "report/plan_report.h"
#include "search/plan_run.h"

namespace snug {

// Each is the plan with one change to it: given with the flags in `pins`, it has exactly its
// bytes; without, the search chooses anew, and is no slower.
//
// The best first. For a plan that does not fit: what makes it fit before what does not, what keeps
// the numbers before what changes learning, and the fastest of those. For one that fits: what is
// faster inside the budget, then what is smaller, by the bytes that it saves for the time it costs.
std::vector<Advice> advice_for(const PlannedRun& planned);

}  // namespace snug
