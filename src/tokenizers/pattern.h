// What a Split or a Replace looks for: {"String": " "} or {"Regex": "\\s+"}.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "tokenizers/json_part.h"
#include "tokenizers/regex.h"
#include "tokenizers/utf8.h"

namespace snug {

class Pattern {
 public:
  // Of the part's "pattern". Throws as Regex does.
  explicit Pattern(const JsonPart& part) {
    const JsonPart pattern = part.part("pattern");
    if (pattern.has("String"))
      text_ = pattern.text("String");
    else
      regex_.emplace(pattern.text("Regex"), part.titled());
  }

  // Calls visit(range, is_match) for the matches and the text between them, in order.
  template <typename Visit>
  void each(std::string_view text, const Visit& visit) const {
    if (regex_) return each_match(*regex_, text, visit);
    size_t done = 0;
    for (size_t at = find(text, 0); at != text.npos; at = find(text, done)) {
      if (at > done) visit(Range{done, at}, false);
      done = at + text_.size();
      visit(Range{at, done}, true);
    }
    if (done < text.size()) visit(Range{done, text.size()}, false);
  }

  bool looks_behind() const { return regex_ && regex_->looks_behind(); }
  bool is_one_letter() const {
    return !regex_ && !text_.empty() && code_point_at(text_, 0).bytes == text_.size();
  }

 private:
  size_t find(std::string_view text, size_t from) const {
    return text_.empty() ? text.npos : text.find(text_, from);
  }

  std::string text_;
  std::optional<Regex> regex_;
};

}  // namespace snug
