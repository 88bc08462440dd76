// Cuts normalized text into words, which a model then encodes one by one.
//
//   PreTokenizer words = PreTokenizer::read(part);
//   Pieces pieces;
//   words.split(" two words", {.begins = true}, pieces);   // pieces.words: " two", " words"
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tokenizers/json_part.h"

namespace snug {

// Words as views of the text, or of what was made of it.
struct Pieces {
  std::vector<std::string_view> words;
  std::deque<std::string> made;  // owns the text of words that are not in the input
};

struct SplitContext {
  bool begins = true;        // the text is not the rest of one that was cut
  bool begins_input = true;  // nothing of the input comes before it
};

class Splitter {
 public:
  virtual ~Splitter() = default;
  virtual void split(std::string_view text, const SplitContext& context, Pieces& out) const = 0;
};

// Where a long text may be cut so that its parts have the words of the whole.
enum class Cuts : uint8_t {
  none,
  if_words_end,  // where the words of a part and of what follows end there too
  at_spaces,     // before any space that follows a letter and is followed by one
};

class PreTokenizer {
 public:
  PreTokenizer() = default;  // the text is one word
  // Throws as Normalizer::read does.
  static PreTokenizer read(const JsonPart& part);

  void split(std::string_view text, const SplitContext& context, Pieces& out) const;
  bool spells_bytes() const { return spells_bytes_; }  // a ByteLevel ends it
  bool empty() const { return splitters_.empty(); }
  Cuts cuts() const { return cuts_; }

 private:
  void add(const JsonPart& part);
  void limit(Cuts cuts);

  std::vector<std::unique_ptr<const Splitter>> splitters_;
  bool spells_bytes_ = false;
  Cuts cuts_ = Cuts::if_words_end;
};

}  // namespace snug
