#include "train/feeder.h"

#include <algorithm>

#include "passes/shared_names.h"

namespace snug {

Feeder::Feeder(Executor& executor, const Resolved& run, Samples& samples)
    : executor_(executor),
      samples_(samples),
      schedule_(run.schedule),
      batch_(run.build.batch),
      ranks_(run.recipe.sharding.ranks),
      rank_(run.recipe.sharding.rank),
      sequences_(run.options.global_batch),
      tokens_(targets_per_row(run)),
      seed_(run.options.seed),
      seed_id_(executor.module().find_shared("seed")),
      step_id_(executor.module().find_shared("step")),
      lr_id_(executor.shared(shared_names::kLearningRate)),
      loss_grad_id_(executor.module().find_shared(shared_names::kLossGrad)) {}

void Feeder::before(const Program& program, int64_t step) {
  set(lr_id_, static_cast<float>(learning_rate(schedule_, step)));
  if (!is_training(program.role)) return;
  // None of a step is fed yet. Where none is left, its last program may still be to come, with
  // backwards alone.
  if (program.role == ProgramRole::training_first)
    step_targets_ = samples_.targets(next_sample_, sequences_);
  for (int64_t m = 0; m < program.micro_batches; ++m) feed(m);
  set(seed_id_, seed_);
  set(step_id_, step);
  // A loss is a sum; this makes it a mean over the whole step, known before its first backward.
  set(loss_grad_id_, 1.0F / static_cast<float>(step_targets_));
}

void Feeder::pass_bad_samples() {
  while (std::ranges::find(bad_, next_sample_) != bad_.end()) next_sample_ += sequences_;
}

void Feeder::feed(int64_t micro_batch) {
  if (left_ == 0) left_ = sequences_;
  const int64_t before = rank_ * batch_;  // of other ranks
  const int64_t rows = std::clamp<int64_t>(left_ - before, 0, batch_);
  samples_.feed(executor_, next_sample_ + before, rows, micro_batch);
  set(executor_.module().find_shared(micro_batch_input("sample", micro_batch)),
      next_sample_ + before);
  const int64_t taken = std::min(batch_ * ranks_, left_);
  next_sample_ += taken;
  left_ -= taken;
}

}  // namespace snug
