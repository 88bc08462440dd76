// The part of a tokenizer that turns one word into ids: BPE, WordPiece or Unigram.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "tokenizers/vocabulary.h"

namespace snug {

// U+2581, by which SentencePiece's vocabularies spell a space.
constexpr std::string_view kSpaceLetter = "\xe2\x96\x81";

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  // Appends the ids of a word of valid UTF-8, or of any bytes where the model is one of bytes. Any
  // thread may ask.
  virtual void encode(std::string_view word, std::vector<int32_t>& ids) const = 0;
  virtual const Vocabulary& vocabulary() const = 0;
  // Text that no pre-tokenizer cuts may be cut before each U+2581 that follows something else:
  // no token reaches over such a place.
  virtual bool words_begin_with_space() const { return false; }
};

// `bytes`: words come as bytes, which the vocabulary spells in GPT-2's characters.
std::unique_ptr<TokenModel> read_model(const JsonPart& part, bool bytes);

std::unique_ptr<TokenModel> read_bpe(const JsonPart& part, bool bytes);
std::unique_ptr<TokenModel> read_word_piece(const JsonPart& part);
std::unique_ptr<TokenModel> read_unigram(const JsonPart& part);

}  // namespace snug
