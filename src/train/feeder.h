// Feeds a run: the next micro-batch and the scalars that go with it. On a device with a stream this
// happens while the device still works on the last one.
//
//   Feeder feeder(executor, run);
//   executor.run_step([&](const Program& program) { feeder.before(program, step); });
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recipe/resolve.h"
#include "runtime/executor.h"
#include "train/data.h"
#include "train/masking.h"
#include "train/run_manifest.h"

namespace snug {

// Where samples come from: rows of tokens, or features for a model without tokens. Opened, and
// so refused, before anything is planned or allocated.
class Samples {
 public:
  static Samples for_training(const Resolved& run);

  std::string text() const;
  DataFingerprint fingerprint() const;
  bool has_held_out() const { return held_out_ != nullptr; }
  // Of the micro-batch's rows the first `rows` are samples; the targets of the others do not count.
  // `micro_batch`: of those that the next program takes together.
  void feed(Executor& executor, int64_t first_sample, int64_t rows, int64_t micro_batch);
  void feed_held_out(Executor& executor, int64_t first_sample, int64_t rows);
  int64_t windows() const { return train_->windows(); }  // rows of tokens, per epoch
  // Targets that count in what was fed last.
  int64_t counted_targets() const;
  // Targets that count of samples [first_sample, first_sample + samples): more than none.
  int64_t targets(int64_t first_sample, int64_t samples) const;

 private:
  void make_tokens(const Dataset& data, int64_t first_sample);
  void ignore_behind(int64_t rows);
  void send(Executor& executor, int64_t micro_batch) const;

  std::shared_ptr<const Dataset> train_, held_out_;
  std::shared_ptr<const SyntheticFeatures> features_;
  std::optional<Masking> masking_;                         // the model sees the whole sequence
  int64_t rows_ = 0, row_targets_ = 0, row_features_ = 0;  // of a micro-batch
  bool packed_ = false;  // rows hold several samples: programs are told where they begin
  std::vector<int32_t> tokens_, targets_, starts_;
  std::vector<float> feature_values_;
};

class Feeder {
 public:
  Feeder(Executor& executor, const Resolved& run, Samples& samples);

  // To be called before each program of step `step` (from 0). A rank takes its part of the sequences
  // that all ranks take at once. The last of a step may be short, or none.
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
