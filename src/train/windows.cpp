#include "train/windows.h"

#include <algorithm>
#include <vector>

#include "base/checksum.h"
#include "base/error.h"
#include "base/units.h"

namespace snug {

Windows::Windows(std::shared_ptr<const TokenStream> stream, int64_t T)
    : stream_(std::move(stream)), T_(T) {
  if (T <= 0) throw usage_error("a window of {} tokens makes no sense", T);
  count_ = (stream_->size() - 1) / T;
  if (count_ < 1) {
    throw bad_input(
        "{}: {} tokens are fewer than the {} that one window of {} and its targets need",
        stream_->text(), stream_->size(), T + 1, T)
        .hint("give it more data or a smaller --seq");
  }
}

std::string Windows::text() const {
  return fmt::format("{} = {} of {}", stream_->text(), counted(count_, noun()), T_);
}

void Windows::fill(int64_t row, const RowSpans& out) const {
  const int64_t begin = row * T_;
  stream_->copy(begin, out.tokens);
  std::ranges::copy(out.tokens.subspan(1), out.targets.begin());
  stream_->copy(begin + T_, out.targets.last(1));
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
  return {.tokens = size, .checksum = sum.text()};
}

}  // namespace snug
