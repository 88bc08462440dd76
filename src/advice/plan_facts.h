// The facts that are reported of a plan, and the refusal of one that does not fit.
#pragma once

#include "report/plan_report.h"
#include "search/plan_run.h"
#include "snug/snug.h"

namespace snug {

// Are changes looked for? Each is a plan of its own: a run that fits begins without them.
enum class Advise { never, when_it_does_not_fit, always };

// Nothing on a CPU, or where the model has none.
std::optional<AttentionFacts> attention_of(const PlannedRun& planned);

PlanFacts facts_of(const PlannedRun& planned, Advise advise);

PlanReport report_of(const PlannedRun& planned, Advise advise, bool colour);

// Throws does_not_fit, with the numbers and the cheapest changes, when the plan exceeds the budget
// of a space.
void require_fit(const PlannedRun& planned);

}  // namespace snug
