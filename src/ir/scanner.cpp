#include "ir/scanner.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/number.h"

namespace snug {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '@' ||
         c == '/' || c == '-';
}

}  // namespace

void Scanner::skip() {
  for (; at_ < text_.size(); ++at_) {
    const char c = text_[at_];
    if (c == '#') {
      while (at_ + 1 < text_.size() && text_[at_ + 1] != '\n') ++at_;
    } else if (c == '\n' && brackets_ > 0) {
      ++line_;
    } else if (c != ' ' && c != '\t' && c != '\r') {
      return;
    }
  }
}

bool Scanner::accept(std::string_view literal) {
  skip();
  if (!text_.substr(at_).starts_with(literal)) return false;
  at_ += literal.size();
  return true;
}

void Scanner::expect(std::string_view literal) {
  if (!accept(literal)) throw expected(fmt::format("'{}'", literal));
}

std::string_view Scanner::peek_word() {
  skip();
  size_t n = 0;
  while (at_ + n < text_.size() && is_word(text_[at_ + n])) ++n;
  return text_.substr(at_, n);
}

bool Scanner::accept_word(std::string_view word) {
  if (peek_word() != word) return false;
  at_ += word.size();
  return true;
}

std::string_view Scanner::word(std::string_view what) {
  const std::string_view found = peek_word();
  if (found.empty()) throw expected(what);
  at_ += found.size();
  return found;
}

std::string Scanner::name(std::string_view what) {
  return next_is('"') ? quoted(what) : std::string(word(what));
}

std::string Scanner::quoted(std::string_view what) {
  if (!next_is('"')) throw expected(what);
  ++at_;
  std::string out;
  for (;; ++at_) {
    if (at_ >= text_.size() || peek() == '\n') throw expected("a closing quote");
    if (peek() == '"') break;
    if (peek() != '\\') {
      out += peek();
      continue;
    }
    ++at_;
    if (peek() != 'x') {
      out += peek();
      continue;
    }
    const std::string_view hex = text_.substr(std::min(at_ + 1, text_.size()), 2);
    unsigned code = 0;
    const auto [end, failure] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
    if (hex.size() != 2 || failure != std::errc{} || end != hex.data() + 2)
      throw expected("two hexadecimal digits");
    out += static_cast<char>(code);
    at_ += 2;
  }
  ++at_;
  return out;
}

std::string_view Scanner::number_text(bool groups) {
  skip();
  size_t n = peek() == '-' ? 1 : 0;
  auto digit = [&](size_t i) { return is_digit(peek(i)); };
  while (digit(n) || (groups && peek(n) == ',' && digit(n + 1) && digit(n + 2) && digit(n + 3)))
    ++n;
  return text_.substr(at_, n);
}

int64_t Scanner::integer(std::string_view what) {
  const std::string_view found = number_text(false);
  int64_t value = 0;
  if (!read_number(found, value)) throw expected(what);
  at_ += found.size();
  return value;
}

int64_t Scanner::grouped(std::string_view what) {
  const std::string_view found = number_text(true);
  std::string digits(found);
  std::erase(digits, ',');
  int64_t value = 0;
  if (!read_number(digits, value)) throw expected(what);
  at_ += found.size();
  return value;
}

double Scanner::real(std::string_view what) {
  skip();
  size_t n = 0;
  while (at_ + n < text_.size() && (is_word(text_[at_ + n]) || text_[at_ + n] == '+')) ++n;
  double value = 0;
  if (!read_number(text_.substr(at_, n), value)) throw expected(what);
  at_ += n;
  return value;
}

void Scanner::end_line() {
  if (!at_line_end()) throw expected("the end of the line");
  at_end();
}

bool Scanner::at_end() {
  for (skip(); peek() == '\n' && at_ < text_.size(); skip()) {
    ++at_;
    ++line_;
  }
  return at_ >= text_.size();
}

Error Scanner::expected(std::string_view what) {
  if (at_line_end()) return wrong(fmt::format("expected {}, found the end of the line", what));
  std::string_view rest = text_.substr(at_, 24);
  rest = rest.substr(0, rest.find('\n'));
  return wrong(fmt::format("expected {}, found '{}'", what, rest));
}

}  // namespace snug
