// Batches of samples, by number: sample s is the same whatever the batch size and wherever a run
// was resumed, so the position in the data is one integer.
//
//   Dataset all(open_tokens("data/", V), {.T = 1024, .seed = 1});
//   auto [train, held_out] = all.hold_out(0.05);
//   train.fill(step * B, tokens, targets);   // int32[B,T] each, targets shifted by one
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/rng.h"
#include "data/rows.h"
#include "data/token_stream.h"

namespace snug {

struct OrderOptions {
  bool shuffle = true;  // else rows come in the order of the data
  uint64_t seed = 0;
};

struct WindowOptions {
  int64_t T = 0;        // tokens per window
  bool shuffle = true;  // else windows come in the order of the data
  uint64_t seed = 0;
};

// Rows in some order. Every epoch takes each row once, in an order of its own.
class Dataset {
 public:
  Dataset(std::shared_ptr<const Rows> rows, const OrderOptions& order);
  // Windows of a stream. Throws bad_input when it is shorter than one window.
  Dataset(std::shared_ptr<const TokenStream> stream, const WindowOptions& options);

  int64_t windows() const { return count_; }  // rows per epoch
  int64_t T() const { return rows_->T(); }
  std::string text() const { return rows_->text(); }  // "41 files, ... = 302 windows of 1024"
  std::string noun() const { return rows_->noun(); }  // "window"
  DataFingerprint fingerprint() const { return rows_->fingerprint(); }

  // Samples first_sample, first_sample + 1, ... into the rows of tokens[B,T] and targets[B,T], and
  // where documents begin into starts[B,T], where that is given. Allocates nothing.
  void fill(int64_t first_sample, std::span<int32_t> tokens, std::span<int32_t> targets,
            std::span<int32_t> starts = {}) const;
  // The targets that count of samples [first_sample, first_sample + samples): one each, at least.
  int64_t targets(int64_t first_sample, int64_t samples) const;

  // The last `part` of the rows apart from the rest. What is held out is not shuffled. Throws a
  // usage error unless both sides get one.
  struct Split;
  Split hold_out(double part) const;

 private:
  int64_t row_of(int64_t sample) const;

  std::shared_ptr<const Rows> rows_;
  OrderOptions order_;
  int64_t first_ = 0;  // row
  int64_t count_ = 0;
};

struct Dataset::Split {
  Dataset train, held_out;
};

// Data for a model without tokens: noise with one of W features raised, which is the class.
class SyntheticFeatures {
 public:
  SyntheticFeatures(int64_t W, uint64_t seed);
  // Rows of features[B,W] and targets[B]. Allocates nothing.
  void fill(int64_t first_sample, std::span<float> features, std::span<int32_t> targets) const;

 private:
  int64_t W_;
  Key key_;
};

}  // namespace snug
