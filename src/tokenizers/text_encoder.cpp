#include "tokenizers/text_encoder.h"

#include <algorithm>

#include "base/parallel.h"
#include "tokenizers/utf8.h"

namespace snug {
namespace {

constexpr size_t kPartBytes = size_t{128} << 10;
constexpr size_t kNextBytes = 1024;  // of what follows a part: enough for words to end in

bool ends_a_word(std::string_view text, size_t at) {
  const char32_t c = code_point_before(text, at).value;
  constexpr char32_t kSpaceSign = 0x2581;
  if (c < 0x80) return (c >= '0' && c <= '9') || ((c | 0x20U) >= 'a' && (c | 0x20U) <= 'z');
  return !is_white_space(c) && c != kSpaceSign;
}

// Before a single space after a word, or, where words are compared, at the begin of a line.
bool may_cut_at(std::string_view text, size_t at, Cuts cuts) {
  if (text[at] == ' ') return text[at + 1] > ' ' && ends_a_word(text, at);
  const auto c = static_cast<unsigned char>(text[at]);
  return cuts == Cuts::if_words_end && text[at - 1] == '\n' && (c >= 0xc0 || (c > ' ' && c < 0x7f));
}

size_t end_of_character(std::string_view text, size_t at) {
  while (at < text.size() && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80) ++at;
  return at;
}

}  // namespace

// Where the part that begins at `from` may end; the text's end where nothing is found.
size_t TextEncoder::cut_after(std::string_view text, size_t from) const {
  if (tokenizer_->cuts_ == Cuts::none || text.size() - from < kPartBytes + kNextBytes)
    return text.size();
  const size_t last = text.size() - kNextBytes;
  for (size_t at = from + kPartBytes; at < last; ++at)
    if (may_cut_at(text, at, tokenizer_->cuts_)) return at;
  return text.size();
}

void TextEncoder::cut(std::span<const Text> texts, size_t index, std::vector<Job>& jobs) const {
  const std::string_view text = texts[index].text;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = cut_after(text, begin);
    if (end == text.size() && !texts[index].ends) return;
    jobs.push_back({.text = index, .begin = begin, .end = end});
    begin = end;
  }
}

void TextEncoder::run(std::span<const Text> texts, Job& job) {
  const auto& [text, begins, ends] = texts[job.text];
  const bool look = tokenizer_->cuts_ == Cuts::if_words_end && job.end < text.size();
  const size_t seen =
      look ? end_of_character(text, std::min(job.end + kNextBytes, text.size())) : job.end;
  std::unique_ptr<Encoder> encoder = take();
  job.ids.clear();
  job.done = encoder->encode_part({.text = text.substr(job.begin, seen - job.begin),
                                   .next = seen - job.end,
                                   .begins = begins && job.begin == 0},
                                  job.ids);
  give(std::move(encoder));
}

std::vector<TextEncoder::Encoded> TextEncoder::encode(std::span<const Text> texts) {
  std::vector<Job> jobs;
  for (size_t i = 0; i < texts.size(); ++i) cut(texts, i, jobs);
  for_each_in_parallel(jobs.size(), [&](size_t i) { run(texts, jobs[i]); });
  std::vector<Encoded> out(texts.size());
  for (size_t i = 0; i < jobs.size(); ++i) {
    // A part that does not end where a word does is encoded with the one after it.
    Job& job = jobs[i];
    while (!job.done && i + 1 < jobs.size() && jobs[i + 1].text == job.text) {
      job.end = jobs[++i].end;
      run(texts, job);
    }
    if (!job.done) continue;
    out[job.text].used = job.end;
    out[job.text].ids.push_back(std::move(job.ids));
  }
  return out;
}

std::unique_ptr<Encoder> TextEncoder::take() {
  const std::lock_guard lock(mutex_);
  if (idle_.empty()) return std::make_unique<Encoder>(*tokenizer_);
  std::unique_ptr<Encoder> encoder = std::move(idle_.back());
  idle_.pop_back();
  return encoder;
}

void TextEncoder::give(std::unique_ptr<Encoder> encoder) {
  const std::lock_guard lock(mutex_);
  idle_.push_back(std::move(encoder));
}

}  // namespace snug
