// An evaluation as the body of a Run.
#include "base/error.h"
#include "generate/evaluation.h"
#include "train/run_body.h"

namespace snug {
namespace {

class EvaluationRun final : public RunBody {
 public:
  EvaluationRun(const Options& options, EvalObserver observer)
      : evaluation_(options, std::move(observer)) {}

  void require(RunCall call) const override {
    if (call != RunCall::evaluate && call != RunCall::read)
      throw usage_error("the run evaluates: it takes no step, and saves nothing");
  }
  bool done() const override { return true; }
  EvalReport evaluate() override { return evaluation_.run(); }
  Executor& executor(bool /*flushed*/) override { return evaluation_.executor(); }
  const Module& module() const override { return evaluation_.module(); }

 private:
  Evaluation evaluation_;
};

}  // namespace

std::unique_ptr<RunBody> open_evaluation(const Options& options, EvalObserver observer) {
  return std::make_unique<EvaluationRun>(options, std::move(observer));
}

}  // namespace snug
