#include "tokenizers/byte_letters.h"

#include <array>

#include "tokenizers/utf8.h"

namespace snug {
namespace {

constexpr size_t kLetters = 0x144;  // the last letter is U+0143

struct Letters {
  std::array<char32_t, 256> of_byte{};
  std::array<int, kLetters> to_byte{};  // -1: none

  constexpr Letters() {
    to_byte.fill(-1);
    char32_t next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool plain =
          (byte >= '!' && byte <= '~') || (byte >= 0xa1 && byte <= 0xac) || byte >= 0xae;
      const char32_t letter = plain ? static_cast<char32_t>(byte) : next++;
      of_byte[static_cast<size_t>(byte)] = letter;
      to_byte[letter] = byte;
    }
  }
};
constexpr Letters kLetterTable;

}  // namespace

char32_t letter_of(unsigned char byte) { return kLetterTable.of_byte[byte]; }

std::string letters_of(std::string_view bytes) {
  std::string out;
  for (const char c : bytes) append_utf8(out, letter_of(static_cast<unsigned char>(c)));
  return out;
}

std::optional<std::string> bytes_of_letters(std::string_view letters) {
  std::string out;
  for (size_t at = 0; at < letters.size();) {
    const CodePoint c = code_point_at(letters, at);
    at += c.bytes;
    if (c.value >= kLetters || kLetterTable.to_byte[c.value] < 0) return std::nullopt;
    out += static_cast<char>(kLetterTable.to_byte[c.value]);
  }
  return out;
}

}  // namespace snug
