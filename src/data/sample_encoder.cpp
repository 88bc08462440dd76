#include "data/sample_encoder.h"

#include <algorithm>

#include "base/checksum.h"
#include "base/error.h"
#include "formats/sample_file.h"

namespace snug {
namespace {

// A prompt and its completion, as text.
Rendered joined(const JsonSample& sample) {
  Rendered out;
  out.text = sample.text + sample.completion;
  out.learned = {{sample.text.size(), out.text.size()}};
  return out;
}

Rendered whole(const JsonSample& sample) {
  Rendered out;
  out.text = sample.text;
  out.learned = {{0, out.text.size()}};
  return out;
}

}  // namespace

SampleFormat::SampleFormat(const ModelTokenizer* model)
    : model_(model), end_of_text_(model == nullptr ? 0 : require_end_of_text(*model, 2)) {}

int64_t SampleFormat::vocabulary() const {
  return model_ == nullptr ? 256 : model_->tokenizer.vocabulary();
}

std::string SampleFormat::description() const {
  if (model_ == nullptr) return "bytes";
  return fmt::format("{} {} {} {} {}", model_->checksum, end_of_text_,
                     checksum_text(model_->chat_template), model_->bos_token, model_->eos_token);
}

const ChatFormat& SampleFormat::chat() const {
  const std::lock_guard lock(mutex_);
  if (!chat_ && model_ == nullptr) {
    throw usage_error("'messages' need a model with a tokenizer: its tokens are bytes")
        .hint("give samples with 'text', or 'prompt' and 'completion'");
  }
  if (!chat_) chat_ = chat_format_of(*model_);
  return *chat_;
}

SampleEncoder::SampleEncoder(const SampleFormat& format) : format_(&format) {
  if (format.model() != nullptr) encoder_.emplace(format.model()->tokenizer);
}

void SampleEncoder::encode(const JsonSample& sample, std::vector<int32_t>& words) {
  words.clear();
  if (sample.kind == JsonSample::Kind::chat)
    return add(format_->chat().render(sample.messages), words);
  add_before(words);
  add(sample.kind == JsonSample::Kind::text ? whole(sample) : joined(sample), words);
  words.push_back(format_->end_of_text());
}

void SampleEncoder::add_before(std::vector<int32_t>& words) const {
  if (format_->model() == nullptr) return;
  for (const int32_t id : format_->model()->tokenizer.surroundings().before)
    words.push_back(not_learned(id));
}

// Segment by segment: they begin at special tokens, so that words end there.
void SampleEncoder::add(const Rendered& text, std::vector<int32_t>& words) {
  std::vector<size_t> edges{0};
  for (const size_t cut : text.cuts)
    if (cut > edges.back()) edges.push_back(cut);
  if (text.text.size() > edges.back()) edges.push_back(text.text.size());
  for (size_t i = 0; i + 1 < edges.size(); ++i) {
    const size_t begin = edges[i], end = edges[i + 1];
    const std::string_view segment = std::string_view(text.text).substr(begin, end - begin);
    tokens_of(segment, begin == 0, ids_);
    const size_t first = words.size();
    for (const int32_t id : ids_) words.push_back(not_learned(id));
    for (const auto& [from, to] : text.learned) {
      if (from >= end || to <= begin) continue;
      const size_t a = tokens_before(segment, begin == 0, std::max(from, begin) - begin);
      const size_t b = tokens_before(segment, begin == 0, std::min(to, end) - begin);
      for (size_t k = a; k < b; ++k) words[first + k] = ids_[k];
    }
  }
}

// How many of the segment's tokens (in ids_) end where its first `at` bytes do, or before.
size_t SampleEncoder::tokens_before(std::string_view segment, bool begins, size_t at) {
  if (at == 0) return 0;
  if (at == segment.size()) return ids_.size();
  tokens_of(segment.substr(0, at), begins, prefix_);
  const auto differs = std::ranges::mismatch(ids_, prefix_);
  return static_cast<size_t>(differs.in1 - ids_.begin());
}

void SampleEncoder::tokens_of(std::string_view text, bool begins, std::vector<int32_t>& ids) {
  ids.clear();
  if (encoder_) {
    encoder_->encode_part({.text = text, .next = 0, .begins = begins}, ids);
  } else {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }
}

}  // namespace snug
