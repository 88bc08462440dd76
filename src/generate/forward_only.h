// The common parts of `snug eval` and `snug sample`: a model with weights, and programs of the
// forward pass alone, planned inside the budget and loaded.
//
//   const Resolved run = resolve_forward(options, "snug eval");
//   PlannedRun planned = plan_evaluation(run);
//   require_forward_fit(planned, {.what = "evaluation", .plan = plan_evaluation, .changes = ...});
//   LoadedModel model(planned, observer.doing, observer.said);
//   model.executor().run("eval");
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/executor.h"
#include "search/plan_run.h"

namespace snug {

using SayLine = std::function<void(const std::string&)>;

// The run as this machine would do it. Throws a usage error where the model has no weights, or the
// device computes nothing. `verb`: of the caller.
Resolved resolve_forward(const Options& options, std::string_view verb);

// The plan of a module that is compiled for that run.
PlannedRun planned_forward(const Resolved& run, Module compiled);

// How to plan the same with other options, and what to try where it does not fit.
struct ForwardAlternatives {
  std::string what;  // needs the bytes: "evaluation of tiny at --batch 8 --seq 1024"
  std::function<PlannedRun(const Resolved&)> plan;
  std::vector<Change> changes;  // of those that begin with one option, the first that fits is named
};
bool fits(const PlannedRun& planned);
// Throws does_not_fit, with the numbers and those of the changes that would fit.
void require_forward_fit(const PlannedRun& planned, const ForwardAlternatives& alternatives);

// The device, the arena and the weights in it. `planned` outlives this.
class LoadedModel {
 public:
  LoadedModel(const PlannedRun& planned, const SayLine& doing, const SayLine& said);
  Executor& executor() { return *executor_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace snug
