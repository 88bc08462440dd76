// Text becomes a typed setting here and nowhere else: only the edge may include this (tools/layers.txt).
//
//   parse_setting<OptimizerKind>("lion", "optimizer");            // OptimizerKind::lion
//   parse_setting<T>(print_setting(value), option) == value       // of every type and value
//
// A struct is read by its own private `parse`, which nothing below the edge can call.
#pragma once

#include <charconv>
#include <string_view>
#include <type_traits>

#include "settings/option.h"
#include "settings/option_checks.h"
#include "settings/setting_text.h"

namespace snug {

struct SettingReader {
  template <typename T>
  static T read(std::string_view text, std::string_view option) {
    return T::parse(text, option);
  }
  static void read(const Option& option, Options& options, std::string_view text) {
    option.parse_(options, text);
  }
};

inline void parse_option(const Option& option, Options& options, std::string_view text) {
  SettingReader::read(option, options, text);
}

// Throws a usage error that names the option.
template <typename T>
T parse_setting(std::string_view text, std::string_view option) {
  if constexpr (kIsOpen<T>) {
    if (text == kAuto) return {};
    if constexpr (std::is_enum_v<typename T::value_type>) require_word(text, option, words_of<T>());
    return parse_setting<typename T::value_type>(text, option);
  } else if constexpr (std::is_enum_v<T>) {
    for (const Word<T>& known : kWords<T>)
      if (known.word == text) return known.value;
    require_word(text, option, words_of<T>());
    throw internal_error("'{}' is a word without a value", text);
  } else if constexpr (std::is_same_v<T, std::string>) {
    return std::string(text);
  } else if constexpr (std::is_same_v<T, bool>) {
    if (text != "true" && text != "false")
      throw usage_error("--{} '{}' is neither true nor false", option, text);
    return text == "true";
  } else if constexpr (std::is_arithmetic_v<T>) {
    T number{};
    const char* end = text.data() + text.size();
    const auto [stopped, failure] = std::from_chars(text.data(), end, number);
    if (failure == std::errc::result_out_of_range)
      throw usage_error("--{} {} is beyond what a number can hold", option, text);
    if (failure != std::errc{} || stopped != end)
      throw usage_error("--{} '{}' is not a {}", option, text,
                        std::is_integral_v<T> ? "whole number" : "number");
    return number;
  } else {
    return SettingReader::read<T>(text, option);
  }
}

}  // namespace snug
