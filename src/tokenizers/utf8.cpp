#include "tokenizers/utf8.h"

#include <algorithm>
#include <cstring>

namespace snug {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

struct Sequence {
  size_t bytes = 1;  // of it, or of the part that begins it
  bool valid = false;
};

// Which second bytes a first byte allows: what is overlong, a surrogate or beyond Unicode is not.
struct Second {
  unsigned char low = 0x80, high = 0xbf;
};
Second second_after(unsigned char first) {
  if (first == 0xe0) return {0xa0, 0xbf};
  if (first == 0xed) return {0x80, 0x9f};
  if (first == 0xf0) return {0x90, 0xbf};
  if (first == 0xf4) return {0x80, 0x8f};
  return {};
}

Sequence sequence_at(std::string_view bytes, size_t at) {
  const auto first = static_cast<unsigned char>(bytes[at]);
  if (first < 0x80) return {1, true};
  if (first < 0xc2 || first > 0xf4) return {1, false};
  const size_t wanted = first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  Second allowed = second_after(first);
  size_t n = 1;
  for (; n < wanted && at + n < bytes.size(); ++n, allowed = {}) {
    const auto next = static_cast<unsigned char>(bytes[at + n]);
    if (next < allowed.low || next > allowed.high) break;
  }
  return {n, n == wanted};
}

// Where the first byte is that is not ASCII, from `at` on: eight at a time.
size_t end_of_ascii(std::string_view text, size_t at) {
  for (uint64_t word = 0; at + sizeof word <= text.size(); at += sizeof word) {
    std::memcpy(&word, text.data() + at, sizeof word);
    if ((word & 0x8080808080808080U) != 0) break;
  }
  while (at < text.size() && static_cast<unsigned char>(text[at]) < 0x80) ++at;
  return at;
}

// Where the first byte is that belongs to no character.
size_t end_of_valid(std::string_view bytes, size_t at) {
  while ((at = end_of_ascii(bytes, at)) < bytes.size()) {
    const Sequence sequence = sequence_at(bytes, at);
    if (!sequence.valid) break;
    at += sequence.bytes;
  }
  return at;
}

}  // namespace

bool is_ascii(std::string_view text) { return end_of_ascii(text, 0) == text.size(); }

void append_utf8(std::string& out, char32_t c) {
  const auto tail = [&](int shift) { return static_cast<char>(0x80U | ((c >> shift) & 0x3fU)); };
  if (c < 0x80) {
    out += static_cast<char>(c);
  } else if (c < 0x800) {
    out += static_cast<char>(0xc0U | (c >> 6));
    out += tail(0);
  } else if (c < 0x10000) {
    out += static_cast<char>(0xe0U | (c >> 12));
    out += {tail(6), tail(0)};
  } else {
    out += static_cast<char>(0xf0U | (c >> 18));
    out += {tail(12), tail(6), tail(0)};
  }
}

std::string_view valid_utf8(std::string_view bytes, std::string& buffer) {
  size_t end = end_of_valid(bytes, 0);
  if (end == bytes.size()) return bytes;
  buffer.clear();
  for (size_t at = 0;; end = end_of_valid(bytes, at)) {
    buffer += bytes.substr(at, end - at);
    if (end == bytes.size()) return buffer;
    buffer += kReplacement;
    at = end + sequence_at(bytes, end).bytes;
  }
}

}  // namespace snug
