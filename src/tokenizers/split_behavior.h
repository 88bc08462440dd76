// What becomes of matches when a text is split by them: "a b" by a space is
//   isolated "a"," ","b"   removed "a","b"   merged_with_previous "a ","b"
//   merged_with_next "a"," b"   contiguous: as isolated, and neighbours of one kind are one word
#pragma once

#include <string_view>
#include <vector>

#include "tokenizers/json_part.h"
#include "tokenizers/regex.h"

namespace snug {

enum class SplitBehavior : uint8_t {
  removed,
  isolated,
  merged_with_previous,
  merged_with_next,
  contiguous
};

// Of the part's "behavior". Throws bad_input for a word that is none.
inline SplitBehavior read_behavior(const JsonPart& part, SplitBehavior fallback) {
  if (!part.has("behavior")) return fallback;
  const std::string word = part.text("behavior");
  if (word == "Removed") return SplitBehavior::removed;
  if (word == "Isolated") return SplitBehavior::isolated;
  if (word == "MergedWithPrevious") return SplitBehavior::merged_with_previous;
  if (word == "MergedWithNext") return SplitBehavior::merged_with_next;
  if (word == "Contiguous") return SplitBehavior::contiguous;
  part.refuse("its 'behavior' is not understood");
}

// Takes matches and the text between them, in order, and makes words.
class SplitCollector {
 public:
  SplitCollector(SplitBehavior behavior, std::string_view text,
                 std::vector<std::string_view>& words)
      : behavior_(behavior), text_(text), words_(words), first_(words.size()) {}

  void add(Range range, bool is_match) {
    const std::string_view word = text_.substr(range.begin, range.end - range.begin);
    const bool follows = words_.size() > first_;
    bool joins = false;
    switch (behavior_) {
      case SplitBehavior::removed:
        if (is_match) return;
        break;
      case SplitBehavior::isolated:
        break;
      case SplitBehavior::contiguous:
        joins = follows && is_match == before_;
        break;
      case SplitBehavior::merged_with_previous:
        joins = follows && is_match && !before_;
        break;
      case SplitBehavior::merged_with_next:
        joins = follows && before_ && !is_match;
        break;
    }
    before_ = is_match;
    if (joins)
      words_.back() = {words_.back().data(), words_.back().size() + word.size()};
    else
      words_.push_back(word);
  }

 private:
  SplitBehavior behavior_;
  std::string_view text_;
  std::vector<std::string_view>& words_;
  size_t first_;
  bool before_ = false;  // the last one was a match
};

}  // namespace snug
