// The log of a run that ran out of memory, explained, and the plan that would have fitted.
#include "advice/plan_facts.h"
#include "base/error.h"
#include "base/log.h"
#include "machine/here.h"
#include "report/oom_report.h"
#include "snug/inspect.h"

namespace snug {
namespace {

// For a GPU as large as the one of the log, where the options name none.
Options on_gpu_of(Options options, const pytorch::OomLog& log) {
  if (!options.gpu.empty() || options.budget.given()) return options;
  if (const auto bytes = log.allowed ? log.allowed : log.total) {
    options.budget = {*bytes};
    if (!options.device) options.device = DeviceChoice::cuda;
  }
  return options;
}

}  // namespace

InspectReport explain_out_of_memory(const std::string& log, const std::optional<Options>& run) {
  std::optional<pytorch::OomLog> found = pytorch::read_oom_log(log);
  if (!found)
    throw bad_input("{} holds no out-of-memory error that Snug knows", log)
        .hint(
            "PyTorch's, CUDA's, cuBLAS's, NCCL's and the kernel's are known: give the log with "
            "the traceback");
  OomFacts facts{.file = log, .log = *std::move(found)};
  if (run) {
    const PlannedRun planned = plan_run(resolve_here(on_gpu_of(*run, facts.log)));
    facts.plan = OomPlan{planned.plan.memory, facts_of(planned, Advise::always)};
  }
  return {.table = oom_table(facts, Paint{stdout_is_terminal()}), .json = oom_json(facts)};
}

}  // namespace snug
