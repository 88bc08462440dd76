// A number from text, or the knowledge that the text is something else.
#pragma once

#include <charconv>
#include <string_view>

namespace snug {

// The whole text as a number. False: it is something else, or beyond what T holds.
template <typename T>
bool read_number(std::string_view text, T& out) {
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failure == std::errc{} && end == text.data() + text.size();
}

}  // namespace snug
