// GPT-2's spelling of bytes: printable ones are themselves, the others are characters from U+0100 on,
// so that a vocabulary is text.
//
//   letter_of(' ');        // U+0120
//   bytes_of_letters("Ġa") // " a"
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace snug {

char32_t letter_of(unsigned char byte);
std::string letters_of(std::string_view bytes);
// None where a character spells no byte.
std::optional<std::string> bytes_of_letters(std::string_view letters);

}  // namespace snug
