#include "train/feeder.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/error.h"
#include "base/units.h"
#include "passes/passes.h"
#include "train/open_rows.h"

namespace snug {
namespace {

// For every position of a packed row: where its document begins.
constexpr const char* kStarts = "starts";

// Of a micro-batch's row: the sequence's tokens, or a class.
int64_t targets_per_row(const Resolved& run) {
  return run.model.config().transformer ? run.build.seq : 1;
}

// The token that hides others: as asked, or the last of the vocabulary.
int32_t mask_token(const Resolved& run) {
  const int64_t V = run.model.config().V;
  const int64_t asked = run.options.mask_token;
  if (asked >= V) {
    throw usage_error("--mask-token {} is not below the vocabulary of {}", asked, V);
  }
  return static_cast<int32_t>(asked < 0 ? V - 1 : asked);
}

}  // namespace

Samples Samples::for_training(const Resolved& run) {
  Samples out;
  out.rows_ = run.build.batch;
  out.row_targets_ = targets_per_row(run);
  const Options& o = run.options;
  if (!run.model.config().transformer) {
    if (o.data != "synthetic" || !o.eval_data.empty() || o.holdout > 0) {
      throw usage_error(
          "model '{}' takes features, not tokens: it trains on --data synthetic only, and nothing "
          "can be held out",
          o.model);
    }
    out.row_features_ = run.model.config().C;
    out.features_ =
        std::make_shared<SyntheticFeatures>(run.model.config().C, static_cast<uint64_t>(o.seed));
    return out;
  }
  if (!run.model.config().causal) {
    const Key key = random_key(static_cast<uint64_t>(o.seed), 0, hash_name("masking"));
    out.masking_ = Masking{.mask = mask_token(run), .key = key};
  }
  const uint64_t seed = static_cast<uint64_t>(o.seed);
  out.packed_ = o.pack;
  Dataset all(open_rows(o.data, run), OrderOptions{.shuffle = !o.no_shuffle, .seed = seed});
  if (!o.eval_data.empty()) {
    out.held_out_ =
        std::make_shared<Dataset>(open_rows(o.eval_data, run), OrderOptions{.shuffle = false});
    out.train_ = std::make_shared<Dataset>(std::move(all));
  } else if (o.holdout > 0) {
    Dataset::Split split = all.hold_out(o.holdout);
    out.train_ = std::make_shared<Dataset>(std::move(split.train));
    out.held_out_ = std::make_shared<Dataset>(std::move(split.held_out));
  } else {
    out.train_ = std::make_shared<Dataset>(std::move(all));
  }
  return out;
}

std::string Samples::text() const {
  if (features_) return "synthetic features";
  std::string text = train_->text();
  if (held_out_) text += "; held out: " + counted(held_out_->windows(), held_out_->noun());
  if (masking_) text += fmt::format("; 15% of the tokens hidden by token {}", masking_->mask);
  return text;
}

DataFingerprint Samples::fingerprint() const {
  return features_ ? DataFingerprint{.checksum = Checksum().text()} : train_->fingerprint();
}

void Samples::make_tokens(const Dataset& data, int64_t first_sample) {
  tokens_.resize(targets_.size());
  if (packed_) starts_.resize(tokens_.size());
  data.fill(first_sample, tokens_, targets_, starts_);
  if (masking_) masking_->apply(first_sample, data.T(), tokens_, targets_);
}

void Samples::send(Executor& executor, int64_t micro_batch) const {
  // One stage of a pipeline reads tokens, another targets.
  const auto write = [&](std::string_view input, const auto& values) {
    const ValueId id = executor.module().find_shared(micro_batch_input(input, micro_batch));
    if (id.valid()) executor.write(id, std::as_bytes(std::span(values)));
  };
  if (features_) {
    write("features", feature_values_);
  } else {
    write("tokens", tokens_);
  }
  if (packed_) write(kStarts, starts_);
  write("targets", targets_);
}

void Samples::feed(Executor& executor, int64_t first_sample, int64_t rows, int64_t micro_batch) {
  targets_.resize(static_cast<size_t>(rows_ * row_targets_));
  if (train_) {
    make_tokens(*train_, first_sample);
  } else {
    feature_values_.resize(static_cast<size_t>(rows_ * row_features_));
    features_->fill(first_sample, feature_values_, targets_);
  }
  ignore_behind(rows);
  send(executor, micro_batch);
}

void Samples::feed_held_out(Executor& executor, int64_t first_sample, int64_t rows) {
  targets_.resize(static_cast<size_t>(rows_ * row_targets_));
  make_tokens(*held_out_, first_sample);
  ignore_behind(rows);
  send(executor, 0);
}

// Targets of the rows from that one on do not count.
void Samples::ignore_behind(int64_t rows) {
  std::ranges::fill(std::span(targets_).subspan(static_cast<size_t>(rows * row_targets_)),
                    kIgnoredTarget);
}

int64_t Samples::counted_targets() const {
  return std::ranges::count_if(targets_, [](int32_t target) { return target >= 0; });
}

int64_t Samples::targets(int64_t first_sample, int64_t samples) const {
  if (features_) return samples;
  if (masking_) return samples * Masking::per_row(train_->T());
  return train_->targets(first_sample, samples);
}

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
  // None of a step is fed yet. Where none is left, its last program may still be to come, with backwards alone.
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
