// UTF-8 by code point, and bytes that are not UTF-8 made so.
//
//   valid_utf8("a\xff", buffer);               // "a\uFFFD", as Python's errors="replace" has it
//   for (size_t at = 0; at < text.size();) {
//     const CodePoint c = code_point_at(text, at);
//     at += c.bytes;
//   }
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace snug {

struct CodePoint {
  char32_t value = 0;
  uint32_t bytes = 1;
};

// Of valid UTF-8 only.
inline CodePoint code_point_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[at + i]); };
  const unsigned first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xe0) return {(first & 0x1fU) << 6 | (byte(1) & 0x3fU), 2};
  if (first < 0xf0) return {(first & 0xfU) << 12 | (byte(1) & 0x3fU) << 6 | (byte(2) & 0x3fU), 3};
  return {(first & 7U) << 18 | (byte(1) & 0x3fU) << 12 | (byte(2) & 0x3fU) << 6 | (byte(3) & 0x3fU),
          4};
}

// The last code point before `end`, which is not 0.
inline CodePoint code_point_before(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xc0U) == 0x80) --at;
  return code_point_at(text, at);
}

void append_utf8(std::string& out, char32_t c);

// The text itself where it is UTF-8; else `buffer`, with U+FFFD in place of each longest part that
// begins a character and does not end it.
std::string_view valid_utf8(std::string_view bytes, std::string& buffer);

bool is_ascii(std::string_view text);

// Unicode's White_Space, which is the same in every version since 6.3.
constexpr bool is_white_space(char32_t c) {
  return (c >= 9 && c <= 13) || c == ' ' || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f ||
         c == 0x3000;
}

}  // namespace snug
