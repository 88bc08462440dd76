// Text and tokens of a model: how a prompt is read, how tokens are shown, and which of them end a
// text.
//
//   const SampleWords words(model, /*bytes=*/false);
//   std::vector<int32_t> ids = words.encode("The plan");
//   words.ends_text(ids.back());
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "data/model_tokenizer.h"
#include "generate/text_stream.h"
#include "models/model.h"

namespace snug {

class SampleWords {
 public:
  // By the model's tokenizer.json; by bytes where it has no tokenizer and a token for each byte, or
  // where that is asked for; else its tokens are no text. Throws as open_model_tokenizer does.
  SampleWords(const Model& model, bool bytes);

  bool has_text() const { return tokenizer_.has_value() || bytes_; }
  // With what the tokenizer puts around a text. Throws a usage error where tokens are no text.
  std::vector<int32_t> encode(const std::string& text) const;
  // Throws a usage error for tokens that the model does not have.
  void check(std::span<const int32_t> ids) const;
  // Of config.json, generation_config.json and the tokenizer.
  bool ends_text(int32_t id) const { return ends_.contains(id); }
  // After `prompt`. None: tokens are no text.
  std::optional<TextStream> stream(std::span<const int32_t> prompt) const;

 private:
  int64_t V_;
  std::string name_;  // of the model, for errors
  bool bytes_ = false;
  std::optional<ModelTokenizer> tokenizer_;
  std::set<int32_t> ends_;
};

}  // namespace snug
