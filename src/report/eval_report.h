// What `snug eval` says: how far it is, and the loss when it is done. And the plan of programs
// without training in a few lines, which `snug sample` says too.
#pragma once

#include <string>

#include "search/plan_run.h"
#include "snug/snug.h"

namespace snug {

// "tiny on cpu · 4.56 M parameters in fp32 · evaluation, batch 8 x 1024", and what it needs.
// `what`: "evaluation, batch 8 x 1024".
PlanReport forward_plan_report(const PlannedRun& planned, const std::string& what);

// "loss 2.3026 · perplexity 10.00 · 3.3219 bits per byte · 8,192 tokens in 8 windows · ...".
std::string eval_text(const EvalReport& report);
std::string eval_json(const EvalReport& report);
// While it goes on.
std::string eval_progress(const EvalReport& so_far);

}  // namespace snug
