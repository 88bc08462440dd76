#include "data/data.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/units.h"
#include "data/windows.h"

namespace snug {

Dataset::Dataset(std::shared_ptr<const Rows> rows, const OrderOptions& order)
    : rows_(std::move(rows)), order_(order), count_(rows_->count()) {}

Dataset::Dataset(std::shared_ptr<const TokenStream> stream, const WindowOptions& options)
    : Dataset(std::make_shared<Windows>(std::move(stream), options.T),
              {.shuffle = options.shuffle, .seed = options.seed}) {}

int64_t Dataset::row_of(int64_t sample) const {
  const int64_t epoch = sample / count_;
  const int64_t position = sample % count_;
  if (!order_.shuffle) return first_ + position;
  const Key key = random_key(order_.seed, static_cast<uint64_t>(epoch), hash_name("data order"));
  const auto n = static_cast<uint64_t>(count_);
  return first_ + static_cast<int64_t>(permute(key, static_cast<uint64_t>(position), n));
}

void Dataset::fill(int64_t first_sample, std::span<int32_t> tokens, std::span<int32_t> targets,
                   std::span<int32_t> starts) const {
  const auto row = static_cast<size_t>(T());
  if (tokens.size() != targets.size() || tokens.size() % row != 0 ||
      (!starts.empty() && starts.size() != tokens.size())) {
    throw internal_error("{} tokens, {} targets and {} starts are not rows of {}", tokens.size(),
                         targets.size(), starts.size(), row);
  }
  for (size_t at = 0; at < tokens.size(); at += row, ++first_sample) {
    rows_->fill(row_of(first_sample),
                {.tokens = tokens.subspan(at, row),
                 .targets = targets.subspan(at, row),
                 .starts = starts.empty() ? starts : starts.subspan(at, row)});
  }
}

int64_t Dataset::targets(int64_t first_sample, int64_t samples) const {
  int64_t sum = 0;
  for (int64_t s = first_sample; s < first_sample + samples; ++s) sum += rows_->targets(row_of(s));
  return sum;
}

Dataset::Split Dataset::hold_out(double part) const {
  const auto held = static_cast<int64_t>(std::ceil(part * static_cast<double>(count_)));
  if (!(part > 0 && part < 1) || held >= count_) {
    throw usage_error("cannot hold out {} of {}: both sides need at least one", part,
                      counted(count_, noun()))
        .hint("hold out a part between 0 and 1, of more data or of shorter sequences");
  }
  Split split{*this, *this};
  split.train.count_ = count_ - held;
  split.held_out.first_ = first_ + split.train.count_;
  split.held_out.count_ = held;
  split.held_out.order_.shuffle = false;
  return split;
}

SyntheticFeatures::SyntheticFeatures(int64_t W, uint64_t seed)
    : W_(W), key_(random_key(seed, 0, hash_name("synthetic features"))) {
  if (W <= 0) throw usage_error("{} features make no sense", W);
}

void SyntheticFeatures::fill(int64_t first_sample, std::span<float> features,
                             std::span<int32_t> targets) const {
  constexpr float kRaised = 3;          // standard deviations of the noise
  constexpr float kWidth = 3.4641016F;  // of the uniform distribution with deviation 1
  const auto W = static_cast<size_t>(W_);
  if (features.size() != targets.size() * W) {
    throw internal_error("{} features for {} targets of {}", features.size(), targets.size(), W_);
  }
#pragma omp parallel for schedule(static)
  for (size_t b = 0; b < targets.size(); ++b) {
    const uint64_t sample = static_cast<uint64_t>(first_sample) + b;
    const auto row = features.subspan(b * W, W);
    for (size_t i = 0; i < W; i += 4) {
      const auto drawn = philox(key_, i / 4, sample);
      for (size_t j = 0; j < std::min<size_t>(4, W - i); ++j)
        row[i + j] = (unit_float(drawn[j]) - 0.5F) * kWidth;
    }
    const uint64_t dice = mix(key_ ^ mix(sample)) >> 32;
    targets[b] = static_cast<int32_t>(dice * W >> 32);
    row[static_cast<size_t>(targets[b])] += kRaised;
  }
}

}  // namespace snug
