// The loss of a model over data, by a program of the forward pass alone.
//
//   Evaluation evaluation(options, observer);    // planned, opened and loaded
//   EvalReport report = evaluation.run();
#pragma once

#include <optional>

#include "data/samples.h"
#include "generate/forward_only.h"
#include "machine/threads.h"
#include "search/plan_run.h"
#include "snug/snug.h"

namespace snug {

class Evaluation {
 public:
  Evaluation(const Options& options, EvalObserver observer);

  // Every window once, in order.
  EvalReport run();
  Executor& executor() { return model_->executor(); }
  const Module& module() const { return planned_->plan.module; }

 private:
  void add_batch(Executor& executor);
  void summarise();

  ThreadsOfRun threads_;
  EvalObserver observer_;
  std::optional<PlannedRun> planned_;
  std::optional<Samples> samples_;
  std::optional<LoadedModel> model_;
  bool reads_bytes_ = false;
  double sum_ = 0;
  EvalReport report_;
};

}  // namespace snug
