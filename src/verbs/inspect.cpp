#include "snug/inspect.h"
#include "advice/priced_plan.h"
#include "base/log.h"
#include "report/inspect_report.h"

namespace snug {

InspectReport inspect(const InspectOptions& options) {
  const pytorch::Snapshot snapshot = pytorch::read_some_snapshot(options.snapshot);
  InspectFacts facts{.file = options.snapshot,
                     .blocks = options.blocks,
                     .snapshot = &snapshot,
                     .devices = pytorch::examine(snapshot)};
  if (options.run) facts.plan = priced_plan(*options.run);
  return {.table = inspect_table(facts, Paint{stdout_is_terminal()}), .json = inspect_json(facts)};
}

}  // namespace snug
