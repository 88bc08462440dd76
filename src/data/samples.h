// Where samples come from: rows of tokens, or features for a model without tokens. Opened, and so
// refused, before anything is planned or allocated.
//
//   Samples samples = Samples::for_training(run);
//   samples.feed(executor, first_sample, rows, micro_batch);
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/data.h"
#include "data/fingerprint.h"
#include "data/masking.h"
#include "recipe/resolve.h"
#include "runtime/executor.h"

namespace snug {

// Targets of a micro-batch's row: of each token of the sequence, or a class.
int64_t targets_per_row(const Resolved& run);

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
  // At the first feed: an arena that does not fit is refused before memory is taken for its rows.
  void make_buffers();
  void make_tokens(const Dataset& data, int64_t first_sample);
  void ignore_after(int64_t rows);
  void send(Executor& executor, int64_t micro_batch) const;
  std::span<const std::byte> fed_from(Input::Source source) const;

  std::shared_ptr<const Dataset> train_, held_out_;
  std::shared_ptr<const SyntheticFeatures> features_;
  std::optional<Masking> masking_;  // the model sees the whole sequence
  std::vector<Input> inputs_;       // that the model declares
  Input::Sizes sizes_;
  size_t row_targets_ = 0;                          // of a micro-batch's row
  std::vector<int32_t> tokens_, targets_, starts_;  // of a micro-batch; empty: not declared
  std::vector<float> feature_values_;
};

}  // namespace snug
