#include "data/samples.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/error.h"
#include "base/units.h"
#include "data/open_rows.h"
#include "passes/shared_names.h"

namespace snug {
namespace {

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

int64_t targets_per_row(const Resolved& run) {
  const std::vector<Input> inputs = run.model.inputs(run.build);
  const Input& targets = *find_input(inputs, Input::Source::targets);
  return targets.type(run.model.input_sizes(run.build)).shape.elements() / run.build.batch;
}

Samples Samples::for_training(const Resolved& run) {
  Samples out;
  out.inputs_ = run.model.inputs(run.build);
  out.row_targets_ = static_cast<size_t>(targets_per_row(run));
  out.sizes_ = run.model.input_sizes(run.build);
  const Options& o = run.options;
  if (find_input(out.inputs_, Input::Source::features) != nullptr) {
    if (o.data != "synthetic" || !o.eval_data.empty() || o.holdout > 0) {
      throw usage_error(
          "model '{}' takes features, not tokens: it trains on --data synthetic only, and nothing "
          "can be held out",
          o.model);
    }
    out.features_ =
        std::make_shared<SyntheticFeatures>(run.model.config().C, static_cast<uint64_t>(o.seed));
    return out;
  }
  if (!run.model.config().causal) {
    const Key key = random_key(static_cast<uint64_t>(o.seed), 0, hash_name("masking"));
    out.masking_ = Masking{.mask = mask_token(run), .key = key};
  }
  const uint64_t seed = static_cast<uint64_t>(o.seed);
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

void Samples::make_buffers() {
  if (!targets_.empty()) return;
  const auto elements = [&](Input::Source source) -> size_t {
    const Input* input = find_input(inputs_, source);
    return input == nullptr ? 0 : static_cast<size_t>(input->type(sizes_).shape.elements());
  };
  tokens_.resize(elements(Input::Source::tokens));
  targets_.resize(elements(Input::Source::targets));
  starts_.resize(elements(Input::Source::starts));
  feature_values_.resize(elements(Input::Source::features));
}

void Samples::make_tokens(const Dataset& data, int64_t first_sample) {
  data.fill(first_sample, tokens_, targets_, starts_);
  if (masking_) masking_->apply(first_sample, data.T(), tokens_, targets_);
}

std::span<const std::byte> Samples::fed_from(Input::Source source) const {
  switch (source) {
    case Input::Source::tokens:
      return std::as_bytes(std::span(tokens_));
    case Input::Source::targets:
      return std::as_bytes(std::span(targets_));
    case Input::Source::starts:
      return std::as_bytes(std::span(starts_));
    case Input::Source::features:
      break;
  }
  return std::as_bytes(std::span(feature_values_));
}

void Samples::send(Executor& executor, int64_t micro_batch) const {
  for (const Input& input : inputs_) {
    // One stage of a pipeline reads tokens, another targets.
    const ValueId id = executor.module().find_shared(micro_batch_input(input.name, micro_batch));
    if (id.valid()) executor.write(id, fed_from(input.source));
  }
}

void Samples::feed(Executor& executor, int64_t first_sample, int64_t rows, int64_t micro_batch) {
  make_buffers();
  if (train_) {
    make_tokens(*train_, first_sample);
  } else {
    features_->fill(first_sample, feature_values_, targets_);
  }
  ignore_after(rows);
  send(executor, micro_batch);
}

void Samples::feed_held_out(Executor& executor, int64_t first_sample, int64_t rows) {
  make_buffers();
  make_tokens(*held_out_, first_sample);
  ignore_after(rows);
  send(executor, 0);
}

// Targets of the rows from that one on do not count.
void Samples::ignore_after(int64_t rows) {
  std::ranges::fill(std::span(targets_).subspan(static_cast<size_t>(rows) * row_targets_),
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

}  // namespace snug
