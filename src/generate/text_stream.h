// Tokens as text, as they come: what is added never ends inside a character.
//
//   TextStream text(&tokenizer, prompt_ids);       // or TextStream::of_bytes()
//   print(text.add(token));                        // "" while a character is not complete
//   print(text.finish());                          // what is left, U+FFFD for half characters
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizers/tokenizer.h"

namespace snug {

class TextStream {
 public:
  // After these tokens: some tokenizers write the first token of a text differently. Special tokens
  // give no text. `tokenizer` outlives this.
  TextStream(const Tokenizer* tokenizer, std::span<const int32_t> before);
  static TextStream of_bytes() { return TextStream(nullptr, {}); }

  std::string add(int32_t token);
  std::string finish();

 private:
  std::string complete_bytes();

  const Tokenizer* tokenizer_;  // none: every token is a byte
  std::vector<int32_t> ids_;    // from a little before what is not shown yet
  size_t shown_ = 0;            // of them
  std::string bytes_;           // that are not shown yet
};

// Ends a text where one of these is found; that text is not shown, and neither is what may be the
// beginning of it until more is known.
class StopTexts {
 public:
  explicit StopTexts(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // The text that may be shown so far.
  std::string add(std::string_view text);
  // The rest, when nothing comes any more.
  std::string finish() { return std::exchange(held_, {}); }
  bool found() const { return found_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool found_ = false;
};

}  // namespace snug
