#include "verbs/inspect.h"

#include "base/error.h"
#include "base/log.h"
#include "report/inspect_report.h"
#include "snug/inspect.h"
#include "verbs/priced_plan.h"

namespace snug {

pytorch::Snapshot read_some_snapshot(const std::string& file) {
  pytorch::Snapshot snapshot = pytorch::read_snapshot(file);
  if (snapshot.devices.empty())
    throw bad_input("{} has no segment and no event: nothing was allocated or recorded", file)
        .hint("torch.cuda.memory._record_memory_history() goes before the model is made");
  return snapshot;
}

InspectReport inspect(const InspectOptions& options) {
  const pytorch::Snapshot snapshot = read_some_snapshot(options.snapshot);
  InspectFacts facts{.file = options.snapshot,
                     .blocks = options.blocks,
                     .snapshot = &snapshot,
                     .devices = pytorch::examine(snapshot)};
  if (options.run) facts.plan = priced_plan(*options.run);
  return {.table = inspect_table(facts, Paint{stdout_is_terminal()}), .json = inspect_json(facts)};
}

}  // namespace snug
