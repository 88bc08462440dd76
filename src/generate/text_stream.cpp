#include "generate/text_stream.h"

#include <algorithm>

#include "tokenizers/utf8.h"

namespace snug {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD
constexpr size_t kContext = 8;  // tokens before, enough for a character of several and its space

// Bytes at the end that begin a character and do not end it.
size_t incomplete_tail(std::string_view bytes) {
  std::string buffer;
  for (size_t n = std::min<size_t>(3, bytes.size()); n > 0; --n) {
    const std::string_view tail = bytes.substr(bytes.size() - n);
    const auto first = static_cast<unsigned char>(tail[0]);
    const size_t length = first < 0xc2 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    // A tail that is the beginning of one character becomes one replacement.
    if (first < 0xf5 && length > n && valid_utf8(tail, buffer) == kReplacement) return n;
  }
  return 0;
}

}  // namespace

TextStream::TextStream(const Tokenizer* tokenizer, std::span<const int32_t> before)
    : tokenizer_(tokenizer) {
  const auto context = before.last(std::min(before.size(), kContext));
  ids_.assign(context.begin(), context.end());
  shown_ = ids_.size();
}

std::string TextStream::add(int32_t token) {
  if (tokenizer_ == nullptr) {
    bytes_ += static_cast<char>(token);
    return complete_bytes();
  }
  ids_.push_back(token);
  const std::string text = tokenizer_->decode(ids_, /*with_special=*/false);
  if (text.ends_with(kReplacement)) return "";
  const std::string before = tokenizer_->decode(std::span(ids_).first(shown_), false);
  // The shown text is a prefix of all, but where a decoder drops a space at its end.
  const size_t same = static_cast<size_t>(std::ranges::mismatch(before, text).in2 - text.begin());
  const size_t drop = ids_.size() - std::min(ids_.size(), kContext);
  ids_.erase(ids_.begin(), ids_.begin() + static_cast<std::ptrdiff_t>(drop));
  shown_ = ids_.size();
  return text.substr(same);
}

std::string TextStream::complete_bytes() {
  const size_t tail = incomplete_tail(bytes_);
  std::string buffer;
  std::string text(valid_utf8(std::string_view(bytes_).substr(0, bytes_.size() - tail), buffer));
  bytes_.erase(0, bytes_.size() - tail);
  return text;
}

std::string TextStream::finish() {
  if (tokenizer_ == nullptr) {
    std::string buffer;
    std::string text(valid_utf8(bytes_, buffer));
    bytes_.clear();
    return text;
  }
  const std::string before = tokenizer_->decode(std::span(ids_).first(shown_), false);
  std::string text = tokenizer_->decode(ids_, /*with_special=*/false);
  shown_ = ids_.size();
  return text.substr(static_cast<size_t>(std::ranges::mismatch(before, text).in2 - text.begin()));
}

std::string StopTexts::add(std::string_view text) {
  if (found_) return "";
  held_ += text;
  size_t end = std::string::npos;
  for (const std::string& stop : stops_) end = std::min(end, held_.find(stop));
  if (end != std::string::npos) {
    found_ = true;
    std::string shown = held_.substr(0, end);
    held_.clear();
    return shown;
  }
  size_t hold = 0;
  for (const std::string& stop : stops_) {
    for (size_t n = std::min(stop.size() - 1, held_.size()); n > hold; --n)
      if (held_.ends_with(std::string_view(stop).substr(0, n))) hold = n;
  }
  std::string shown = held_.substr(0, held_.size() - hold);
  held_.erase(0, held_.size() - hold);
  return shown;
}

}  // namespace snug
