// `snug plan A B`: two plans side by side.
#include "advice/plan_facts.h"
#include "base/log.h"
#include "machine/here.h"
#include "report/compare_report.h"
#include "search/meshes/mesh_search.h"

namespace snug {

CompareReport compare(const NamedOptions& a, const NamedOptions& b) {
  const PlannedRun first = plan_job(resolve_here(a.options));
  const PlannedRun second = plan_job(resolve_here(b.options));
  const ComparedPlan left{a.name, first.plan.memory, facts_of(first, Advise::never)};
  const ComparedPlan right{b.name, second.plan.memory, facts_of(second, Advise::never)};
  const Paint paint{!a.options.json && stdout_is_terminal()};
  return {.table = compare_table(left, right, paint), .json = compare_json(left, right)};
}

}  // namespace snug
