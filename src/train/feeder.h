// Feeds a run: the next micro-batch and the scalars that go with it. On a device with a stream this
// happens while the device still works on the last one.
//
//   Feeder feeder(executor, run);
//   executor.run_step([&](const Program& program) { feeder.before(program, step); });
#pragma once

#include <utility>
#include <vector>

#include "data/samples.h"
#include "recipe/resolve.h"
#include "runtime/executor.h"

namespace snug {

class Feeder {
 public:
  Feeder(Executor& executor, const Resolved& run, Samples& samples);

  // To be called before each program of step `step` (from 0). A rank takes its part of the
  // sequences that all ranks take at once. The last of a step may be short, or none.
  void before(const Program& program, int64_t step);
  // The sample that comes next; going back to where a step began runs it again.
  int64_t position() const { return next_sample_; }
  // Steps that would begin there take what comes after.
  void leave_out(std::vector<int64_t> bad) { bad_ = std::move(bad); }
  const std::vector<int64_t>& left_out() const { return bad_; }
  void pass_bad_samples();
  void rewind(int64_t position) {
    next_sample_ = position;
    left_ = 0;
  }

  // Targets that count in the step whose micro-batches are being fed, or were last.
  int64_t step_targets() const { return step_targets_; }
  int64_t tokens_per_step() const { return tokens_ * sequences_; }
  int64_t sequences_per_step() const { return sequences_; }

 private:
  void feed(int64_t micro_batch);
  template <typename T>
  void set(ValueId id, T value) {
    if (id.valid()) executor_.write_scalar(id, value);
  }

  Executor& executor_;
  Samples& samples_;
  LrSchedule schedule_;
  int64_t batch_;  // sequences per micro-batch
  int64_t ranks_, rank_;
  int64_t sequences_;  // per step, of all ranks
  int64_t tokens_;     // per sequence
  int64_t step_targets_ = 0;
  int64_t seed_;
  int64_t next_sample_ = 0;
  std::vector<int64_t> bad_;  // where steps began that are left out
  int64_t left_ = 0;          // sequences of the present step that no rank has been fed yet
  ValueId seed_id_, step_id_, lr_id_, loss_grad_id_;
};

}  // namespace snug
