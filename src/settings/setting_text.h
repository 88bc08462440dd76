// How a setting is written, on the command line and in files.
//
//   print_setting(OptimizerKind::adam_mini);   // "adam-mini"
//   print_setting(Open<ComputeType>{});        // "auto"
//
// An enum is written by its row of kWords, Open<T> as "auto" or as T, a struct by text(value).
// settings/parse.h reads it back.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace snug {

// A setting that may be left to Snug.
template <typename T>
using Open = std::optional<T>;
constexpr std::string_view kAuto = "auto";

template <typename E>
struct Word {
  std::string_view word;
  E value;
};
// The words of an enum: specialised next to it.
template <typename E>
inline constexpr std::array<Word<E>, 0> kWords{};

template <typename T>
inline constexpr bool kIsOpen = false;
template <typename T>
inline constexpr bool kIsOpen<std::optional<T>> = true;

// What an option of this type can be set to; empty where it has no fixed list of words.
template <typename T>
std::vector<std::string> words_of() {
  std::vector<std::string> words;
  if constexpr (kIsOpen<T>) {
    words = words_of<typename T::value_type>();
    if (!words.empty()) words.emplace(words.begin(), kAuto);
  } else if constexpr (std::is_enum_v<T>) {
    for (const Word<T>& known : kWords<T>) words.emplace_back(known.word);
  }
  return words;
}

template <typename T>
std::string print_setting(const T& value) {
  if constexpr (kIsOpen<T>) {
    return value ? print_setting(*value) : std::string(kAuto);
  } else if constexpr (std::is_enum_v<T>) {
    for (const Word<T>& known : kWords<T>)
      if (known.value == value) return std::string(known.word);
    throw internal_error("a setting without a word: {}", static_cast<int64_t>(value));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_same_v<T, std::string>) {
    return fmt::format("{}", value);
  } else {
    return text(value);
  }
}

}  // namespace snug
