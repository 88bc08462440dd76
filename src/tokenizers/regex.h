// Regular expressions of tokenizer.json, which are Oniguruma's, run by PCRE2. Where the two differ
// the pattern is rewritten; what cannot be is refused. A match takes a bounded number of steps.
//
//   const Regex words(R"( ?\p{L}+)", "tokenizer.json: pre_tokenizer");
//   words.find("two words", 3);   // {3, 9}
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace snug {

bool has_regex();                          // built with PCRE2
std::string_view regex_unicode_version();  // "14.0.0"; "" without the library

struct Range {
  size_t begin = 0, end = 0;
  bool operator==(const Range&) const = default;
};

class Regex {
 public:
  // Throws bad_input for a pattern that is not understood, a usage error in a build without PCRE2.
  // `where` is for these sentences.
  Regex(std::string_view pattern, std::string_view where);
  ~Regex();
  Regex(Regex&&) noexcept;
  Regex& operator=(Regex&&) = delete;

  // The first match at or after `from` in valid UTF-8; may be empty. Any thread may ask. Throws
  // bad_input where that takes too many steps.
  std::optional<Range> find(std::string_view text, size_t from) const;

  // A match depends on nothing before its begin: text may be cut where one ends.
  bool looks_behind() const { return looks_behind_; }

 private:
  struct Code;
  std::unique_ptr<Code> code_;
  std::string where_;
  bool looks_behind_ = false;
};

// Calls visit(range, is_match) for the matches and the text between them, in order.
template <typename Visit>
void each_match(const Regex& regex, std::string_view text, const Visit& visit) {
  size_t done = 0, from = 0;
  while (from <= text.size()) {
    const std::optional<Range> match = regex.find(text, from);
    if (!match) break;
    if (match->begin > done) visit(Range{done, match->begin}, false);
    if (match->end > match->begin) visit(*match, true);
    done = match->end;
    from = match->end;
    if (match->end == match->begin) {  // empty: the next one begins a character further on
      do ++from;
      while (from < text.size() && (static_cast<unsigned char>(text[from]) & 0xc0U) == 0x80);
    }
  }
  if (done < text.size()) visit(Range{done, text.size()}, false);
}

}  // namespace snug
