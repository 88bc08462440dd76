// The implementation of a Run: a training, or an evaluation.
#pragma once

#include <memory>
#include <optional>

#include "comm/job.h"
#include "runtime/executor.h"
#include "snug/snug.h"

namespace snug {

enum class RunCall { step, evaluate, read, save, save_checkpoint, finish };

class RunBody {
 public:
  RunBody() = default;
  virtual ~RunBody() = default;
  RunBody(const RunBody&) = delete;
  RunBody& operator=(const RunBody&) = delete;

  // Throws a usage error where the run cannot do that, or not any more. The others are called after
  // it.
  virtual void require(RunCall call) const = 0;

  virtual bool done() const = 0;
  virtual int64_t steps() const { return 0; }
  virtual void step() {}
  virtual std::optional<StepReport> metrics() { return {}; }
  virtual EvalReport evaluate() = 0;
  // `flushed`: with the updates that are due.
  virtual Executor& executor(bool flushed) = 0;
  virtual void save() {}
  virtual void save_checkpoint() {}
  virtual TrainReport finish() { return {}; }

  virtual const Module& module() const = 0;
  // Is the run still usable after a call that threw this?
  virtual bool survives(RunCall /*call*/, const Error& /*error*/) const { return false; }
  // The job outlives it, to leave or to fail; none where it is alone.
  virtual std::unique_ptr<Job> take_job() { return {}; }
};

std::unique_ptr<RunBody> open_training(const Options& options, TrainObserver observer);
std::unique_ptr<RunBody> open_evaluation(const Options& options, EvalObserver observer);

}  // namespace snug
