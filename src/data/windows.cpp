#include "data/windows.h"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/units.h"

namespace snug {

Windows::Windows(std::shared_ptr<const TokenStream> stream, int64_t T, bool learn_all)
    : stream_(std::move(stream)), T_(T), masked_(stream_->masked() && !learn_all) {
  if (T <= 0) throw usage_error("a window of {} tokens makes no sense", T);
  count_ = (stream_->size() - 1) / T;
  if (count_ < 1) {
    throw bad_input(
        "{}: {} tokens are fewer than the {} that one window of {} and its targets need",
        stream_->text(), stream_->size(), T + 1, T)
        .hint("give it more data or a smaller --seq");
  }
  if (masked_) find_learned();
}

void Windows::find_learned() {
  std::vector<int32_t> targets(static_cast<size_t>(T_));
  for (int64_t window = 0; window < count_; ++window) {
    std::ranges::fill(targets, 0);
    stream_->hide_masked(window * T_ + 1, targets, kIgnoredTarget);
    const auto n = std::ranges::count(targets, 0);
    if (n == 0) continue;
    kept_.push_back(window);
    targets_.push_back(static_cast<int32_t>(n));
  }
  if (kept_.empty())
    throw bad_input("{}: by its mask no token is to be learned", stream_->text())
        .hint("--loss-on all learns every token");
  count_ = static_cast<int64_t>(kept_.size());
}

int64_t Windows::targets(int64_t row) const {
  return masked_ ? targets_[static_cast<size_t>(row)] : T_;
}

std::string Windows::text() const {
  std::string text = fmt::format("{} = {} of {}", stream_->text(), counted(count_, noun()), T_);
  if (!masked_) return text;
  const int64_t learned = std::accumulate(targets_.begin(), targets_.end(), int64_t{0});
  return text + fmt::format(", {} to learn", counted(learned, "token"));
}

void Windows::fill(int64_t row, const RowSpans& out) const {
  const int64_t begin = (masked_ ? kept_[static_cast<size_t>(row)] : row) * T_;
  stream_->copy(begin, out.tokens);
  std::ranges::copy(out.tokens.subspan(1), out.targets.begin());
  stream_->copy(begin + T_, out.targets.last(1));
  if (masked_) stream_->hide_masked(begin + 1, out.targets, kIgnoredTarget);
  std::ranges::fill(out.starts, 0);
}

DataFingerprint Windows::fingerprint() const {
  constexpr int64_t kLooks = 64, kTokens = 1024;
  Checksum sum;
  const int64_t size = stream_->size(), each = std::min(kTokens, size);
  std::vector<int32_t> tokens(static_cast<size_t>(each));
  for (int64_t i = 0; i < kLooks; ++i) {  // from the first to the last
    const double share = static_cast<double>(i) / static_cast<double>(kLooks - 1);
    const auto begin = static_cast<int64_t>(share * static_cast<double>(size - each));
    stream_->copy(std::clamp<int64_t>(begin, 0, size - each), tokens);
    sum.add(std::as_bytes(std::span(tokens)));
  }
  sum.add(std::as_bytes(std::span(targets_)));
  return {.tokens = size, .checksum = sum.text()};
}

}  // namespace snug
