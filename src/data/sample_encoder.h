// Samples to tokens, each with whether it is to be learned.
//
//   const SampleFormat format(&model);
//   SampleEncoder encoder(format);               // one for each thread
//   encoder.encode(sample, words);               // formats/sample_file.h says what a word is
//
// A text is what the tokenizer puts before it (<s>), its tokens, and the end of text; all but the
// first are learned. Of a prompt and its completion, and of a conversation, the answers with their
// end tokens are. Tokens are those of the whole text, as transformers makes them; one that begins
// before an answer and ends in it is learned.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/chat_format.h"
#include "data/model_tokenizer.h"
#include "formats/json_lines.h"

namespace snug {

// Shared by all threads.
class SampleFormat {
 public:
  // Without a model every byte is a token, and 0 is the end of text. Throws a usage error where the
  // tokenizer has no end of text.
  explicit SampleFormat(const ModelTokenizer* model);

  const ModelTokenizer* model() const { return model_; }
  int32_t end_of_text() const { return end_of_text_; }
  int64_t vocabulary() const;
  // All that tokens depend on, except the text.
  std::string description() const;
  // Looked up when the first conversation comes. Throws as chat_format_of does.
  const ChatFormat& chat() const;

 private:
  const ModelTokenizer* model_;
  int32_t end_of_text_ = 0;
  mutable std::mutex mutex_;
  mutable std::optional<ChatFormat> chat_;
};

class SampleEncoder {
 public:
  explicit SampleEncoder(const SampleFormat& format);

  // Replaces `words`. Throws bad_input where the sample cannot be written as the model's family
  // writes conversations, and a usage error where it has no way to.
  void encode(const JsonSample& sample, std::vector<int32_t>& words);

 private:
  void add_before(std::vector<int32_t>& words) const;
  void add(const Rendered& text, std::vector<int32_t>& words);
  size_t tokens_before(std::string_view segment, bool begins, size_t at);
  void tokens_of(std::string_view text, bool begins, std::vector<int32_t>& ids);

  const SampleFormat* format_;
  std::optional<Encoder> encoder_;
  std::vector<int32_t> ids_, prefix_;
};

}  // namespace snug
