// PCRE2's \s has U+180E, its \w lacks marks, its scripts include extensions; Oniguruma nests
// classes and has no possessive {n,m}+. These are rewritten or refused, the rest is the same.
#include "tokenizers/regex_pattern.h"

#include "base/error.h"
#include "base/text.h"

namespace snug {
namespace {

constexpr std::string_view kSpaces =
    R"(\t-\r \x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view kWordCharacters = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";
constexpr std::string_view kSameEscapes = R"(nrtfvae\.*+?()[]{}|^$/-'"#&~<>=!,:;@%`_ )";

class Rewriter {
 public:
  Rewriter(std::string_view pattern, std::string_view where) : in_(pattern), where_(where) {}

  PcrePattern rewrite() {
    while (at_ < in_.size()) {
      if (in_[at_] == '\\')
        escape();
      else if (in_class_)
        class_character();
      else
        character();
    }
    return std::move(out_);
  }

 private:
  Error refused(std::string_view what) const {
    return bad_input("{}: the pattern {} has {}, which is not understood", where_, printable(in_),
                     what);
  }
  bool next_is(std::string_view text) const { return in_.substr(at_).starts_with(text); }
  void copy(size_t n) {
    out_.text += in_.substr(at_, n);
    at_ += n;
  }
  void replace(size_t n, std::string_view text) {
    out_.text += text;
    at_ += n;
  }

  void escape() {
    if (at_ + 1 >= in_.size()) throw refused("a backslash at its end");
    const char c = in_[at_ + 1];
    if (c == 's' || c == 'w') {
      shorthand(c == 's' ? kSpaces : kWordCharacters, false);
    } else if (c == 'S' || c == 'W') {
      if (in_class_) throw refused(fmt::format("\\{} in a class", c));
      shorthand(c == 'S' ? kSpaces : kWordCharacters, true);
    } else if (c == 'p' || c == 'P') {
      property();
    } else if (c == 'b' || c == 'B' || c == 'A' || c == 'z' || c == 'Z') {
      if (in_class_) throw refused(fmt::format("\\{} in a class", c));
      out_.looks_behind = true;
      copy(2);
    } else if (c == 'd' || c == 'D' || kSameEscapes.find(c) != kSameEscapes.npos) {
      copy(2);
    } else if (c == 'x' || c == 'u') {
      hexadecimal();
    } else if (static_cast<unsigned char>(c) >= 0x80) {
      ++at_;  // a character of its own
    } else {
      throw refused(fmt::format("\\{}", c));
    }
  }
  void shorthand(std::string_view set, bool negated) {
    if (in_class_)
      replace(2, set);
    else
      replace(2, fmt::format("[{}{}]", negated ? "^" : "", set));
  }
  // \p{L}, \p{^L}, \p{Han}: a script is meant without its extensions.
  void property() {
    const size_t close = in_.find('}', at_);
    if (at_ + 2 >= in_.size() || in_[at_ + 2] != '{' || close == in_.npos)
      throw refused("\\p without {...}");
    const std::string_view name = in_.substr(at_ + 3, close - at_ - 3);
    const bool is_script = name.size() > 2 && name.find_first_of("=:^&_ ") == name.npos &&
                           name != "Any" && name != "Alphabetic";
    if (!is_script) return copy(close + 1 - at_);
    const std::string text = fmt::format("{}{{sc:{}}}", in_.substr(at_, 2), name);
    replace(close + 1 - at_, text);
  }
  void hexadecimal() {
    if (next_is("\\x{")) return copy(3);
    const size_t digits = in_[at_ + 1] == 'x' ? 2 : 4;
    const std::string_view hex = in_.substr(at_ + 2, digits);
    if (hex.size() < digits || hex.find_first_not_of("0123456789abcdefABCDEF") != hex.npos)
      throw refused(fmt::format("\\{} without {} digits", in_[at_ + 1], digits));
    replace(2 + digits, fmt::format("\\x{{{}}}", hex));
  }

  void class_character() {
    if (next_is("&&")) throw refused("&& in a class");
    if (in_[at_] == '[' && at_ > class_begin_) throw refused("a class in a class");
    if (in_[at_] == ']' && at_ > class_begin_) in_class_ = false;
    copy(1);
  }
  void character() {
    if (next_is("(?<=") || next_is("(?<!")) out_.looks_behind = true;
    if (next_is("}+")) throw refused("}+");
    if (next_is("(?") && !next_is("(?:") && !next_is("(?=") && !next_is("(?!") &&
        !next_is("(?<=") && !next_is("(?<!") && !next_is("(?i:") && !next_is("(?>") &&
        !next_is("(?i)"))
      throw refused(in_.substr(at_, 4));
    if (next_is("(*")) throw refused("(*");
    if (in_[at_] == '^' || in_[at_] == '$') out_.looks_behind = true;
    if (in_[at_] == '[') {
      in_class_ = true;
      copy(next_is("[^") ? 2 : 1);
      class_begin_ = at_;
      return;
    }
    copy(1);
  }

  std::string_view in_;
  std::string_view where_;
  PcrePattern out_;
  size_t at_ = 0;
  size_t class_begin_ = 0;  // where ']' would be a character
  bool in_class_ = false;
};

}  // namespace

PcrePattern to_pcre(std::string_view pattern, std::string_view where) {
  return Rewriter(pattern, where).rewrite();
}

}  // namespace snug
