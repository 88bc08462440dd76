// Hugging Face's tokenizer.json: text to the ids that its model was trained on, and back.
//
//   const Tokenizer tokenizer = Tokenizer::open("model/tokenizer.json");
//   Encoder encoder(tokenizer);                 // one for each thread
//   std::vector<int32_t> ids;
//   encoder.encode("two words", ids);           // {3087, 2456}
//   tokenizer.decode(ids);                      // "two words"
//
// What of the file is not understood is refused by name: ids are the same as theirs, or there are
// none (docs/formats.md lists what is understood).
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/added_tokens.h"
#include "tokenizers/decoder.h"
#include "tokenizers/normalizer.h"
#include "tokenizers/post_processor.h"
#include "tokenizers/pre_tokenizer.h"
#include "tokenizers/word_cache.h"
#include "tokenizers/word_model.h"

namespace snug {

class Tokenizer {
 public:
  // Throws bad_input for what is damaged or not understood, a usage error where this build lacks a
  // library that the file needs.
  static Tokenizer open(const std::filesystem::path& path);
  static Tokenizer parse(std::string_view text, std::string_view where);

  int64_t vocabulary() const { return static_cast<int64_t>(texts_.size()); }  // largest id + 1
  int64_t tokens() const { return tokens_; }                                  // that have a text
  int32_t find(std::string_view text) const;                                  // kNoToken: none
  const std::string& text_of(int32_t id) const { return texts_[static_cast<size_t>(id)]; }
  bool is_special(int32_t id) const;
  const AroundText& surroundings() const { return surroundings_; }  // of a text

  std::string decode(std::span<const int32_t> ids, bool with_special = true) const;

 private:
  friend class Encoder;
  friend class TextEncoder;
  Tokenizer() = default;
  void add_tokens(const std::vector<AddedToken>& added, std::string_view where);
  void name_ids(const std::vector<AddedToken>& added, std::string_view where);
  Cuts cuts_of(const std::vector<AddedToken>& added) const;

  Normalizer normalizer_;
  PreTokenizer words_;
  std::unique_ptr<TokenModel> model_;
  AddedTokens in_text_, in_normalized_;
  AroundText surroundings_;
  Decoder decoder_;
  std::vector<std::string> texts_;  // by id; "" where none has it
  std::vector<int32_t> special_;    // sorted
  int64_t tokens_ = 0;
  bool cut_at_space_letters_ =
      false;  // one word for the file, several for us: the ids are the same
  Cuts cuts_ = Cuts::none;
};

// Encodes texts one after another, with what it remembers of earlier ones.
class Encoder {
 public:
  explicit Encoder(const Tokenizer& tokenizer) : tokenizer_(&tokenizer) {}

  // Appends the ids of a text, which need not be UTF-8: what is not becomes U+FFFD.
  // `surrounded`: with what the post-processor puts around it.
  void encode(std::string_view text, std::vector<int32_t>& ids, bool surrounded = false);

  // A part of valid UTF-8 that was cut (text_encoder.h), and a little of what follows, which is not
  // encoded: false, and nothing is appended, where words do not end at the cut.
  struct Part {
    std::string_view text;
    size_t next = 0;  // bytes at the end of `text` that belong to what follows
    bool begins = true;
  };
  bool encode_part(const Part& part, std::vector<int32_t>& ids);

 private:
  void add_text(std::string_view text, bool begins);
  void add_normalized(std::string_view text, const SplitContext& context);
  void add_words(std::string_view text, const SplitContext& context);
  void add_word(std::string_view word);
  bool drop_next(std::string_view next);

  const Tokenizer* tokenizer_;
  WordCache cache_;
  Normalizer::Buffers buffers_;
  std::string valid_;
  Pieces pieces_;
  std::vector<int32_t>* ids_ = nullptr;
  // With each word its bytes and where its ids end, while a cut is being looked at.
  struct Mark {
    size_t bytes, ids;
  };
  std::vector<Mark> marks_;
  bool marking_ = false;
};

}  // namespace snug
