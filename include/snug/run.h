// A run that a program holds: it opens, steps, inspects, saves and closes it. `snug train` is a
// loop over one.
//
//   snug::Run run = snug::Run::open(options, {.stepped = [](const StepReport& r) { ... }});
//   while (!run.done()) run.step();
//   std::vector<float> weights = run.parameters().front().floats();
//   snug::TrainReport report = run.finish();    // the model is in options.out
//
// A run prints nothing: messages go to its callbacks, on the thread that calls it. Several runs may
// follow each other in one process. A call that fails closes the run; a call that is refused (a
// usage error), or a save that cannot be written, leaves it open. One thread at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "snug/options.h"
#include "snug/snug.h"

namespace snug {

class RunBody;
// The state that a run and its views share.
struct RunHandle {
  std::unique_ptr<RunBody> body;  // none: it is closed
};

// A tensor of a run. Reading gives its bytes as they are then. A view keeps no memory alive: once
// the run is closed, reading throws a usage error.
class StateView {
 public:
  const std::string& name() const { return name_; }
  const std::string& category() const { return category_; }  // "params", "master", "optimizer"
  const std::string& dtype() const { return dtype_; }        // "f32", "bf16"
  const std::vector<int64_t>& shape() const { return shape_; }
  // Of a rank's shard: the shape of the whole, and its first element in it. Else `shape`, and 0.
  const std::vector<int64_t>& whole() const { return whole_; }
  int64_t first() const { return first_; }
  int64_t bytes() const { return bytes_; }

  // Copies its bytes from byte `offset` on.
  void read(std::span<std::byte> to, int64_t offset = 0) const;
  std::vector<std::byte> read() const;
  // Of f32, bf16 and f16, as numbers.
  std::vector<float> floats() const;

 private:
  friend struct StateViews;
  std::string name_, category_, dtype_;
  std::vector<int64_t> shape_, whole_;
  int64_t first_ = 0, bytes_ = 0;
  int32_t value_ = -1;
  std::shared_ptr<RunHandle> handle_;
};

class Run {
 public:
  // Opens a training: plans, refuses what does not fit, opens the data, allocates and loads, or
  // resumes (options.resume). As a rank where this process is one of a job.
  static Run open(const Options& options, TrainObserver observer = {});
  // Opens a model to evaluate it over all of options.data: the forward pass alone, which takes no
  // step.
  static Run open_evaluation(const Options& options, EvalObserver observer = {});

  Run(Run&&) noexcept;
  Run& operator=(Run&&) noexcept;
  ~Run();  // closes

  // One optimizer step, with the evaluation and checkpoint that the options ask for after it. The
  // device may still work on it when this returns.
  void step();
  // Are all steps done, or was it told to stop? Always true on the device "null".
  bool done() const;
  int64_t steps() const;  // that are done, with those before a resume

  // Of the last step: waits for it. None before the first.
  std::optional<StepReport> metrics();
  // The loss over held-out data; of open_evaluation, over all data.
  EvalReport evaluate();

  // As the model reads them, with all updates made.
  std::vector<StateView> parameters();
  // Of the last step: sums over its micro-batches and ranks, times the loss scale. None where
  // updates are made in backward.
  std::vector<StateView> gradients();
  // The values of a checkpoint: parameters or their masters, state of the optimizer, counts.
  std::vector<StateView> state();

  // Writes the model, or the adapter, to options.out.
  void save();
  // Writes a checkpoint there, for options.resume.
  void save_checkpoint();

  // Ends a training as `snug train` does: saves to options.out where it is given, and closes the
  // run.
  TrainReport finish();
  // Releases everything, and writes nothing.
  void close();
  bool is_open() const;

 private:
  explicit Run(std::unique_ptr<RunBody> body);

  std::shared_ptr<RunHandle> handle_;
};

}  // namespace snug
