// Reads text word by word for the parser: keeps the line number, skips blanks and comments, and
// says what it expected.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace snug {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Punctuation: a literal, wherever it ends.
  bool accept(std::string_view literal);
  void expect(std::string_view literal);

  // A word is a run of letters, digits and _ . @ / -
  bool accept_word(std::string_view word);
  std::string_view word(std::string_view what);
  std::string_view peek_word();

  std::string name(std::string_view what);  // a word, or text in quotes
  std::string quoted(std::string_view what);
  int64_t integer(std::string_view what);  // -12
  int64_t grouped(std::string_view what);  // 65,536
  double real(std::string_view what);      // 0.02, 1e-05, inf
  bool next_is(char c) { return skip(), peek() == c; }

  // Where a statement ends. Inside brackets lines do not end.
  bool at_line_end() { return skip(), peek() == '\n' || at_ >= text_.size(); }
  void end_line();
  bool at_end();  // after blank lines and comments
  void open_bracket() { ++brackets_; }
  void close_bracket() { --brackets_; }

  // To look ahead and come back within a line.
  size_t mark() const { return at_; }
  void rewind(size_t mark) { at_ = mark; }

  // bad_input: "line 12: expected a value, found 'xyz'"
  Error expected(std::string_view what);
  Error wrong(std::string_view why) const { return bad_input("line {}: {}", line_, why); }

 private:
  char peek(size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  void skip();
  std::string_view number_text(bool groups);

  std::string_view text_;
  size_t at_ = 0;
  int64_t line_ = 1;
  int brackets_ = 0;
};

}  // namespace snug
