// `snug plan`: where every byte of a run will go, and what would change that.
#include "advice/plan_facts.h"
#include "base/log.h"
#include "ir/text.h"
#include "machine/here.h"
#include "search/meshes/mesh_search.h"

namespace snug {

PlanReport plan(const Options& options, bool with_program) {
  const Resolved run = resolve_here(options);
  const PlannedRun planned = plan_job(run);
  const bool colour = !options.json && stdout_is_terminal();
  PlanReport report = report_of(planned, with_program ? Advise::never : Advise::always, colour);
  if (with_program) report.program = print(planned.plan.module);
  return report;
}

}  // namespace snug
