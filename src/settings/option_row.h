// How a row of the option table is made: an option of any type becomes functions over Options.
#pragma once

#include "settings/option.h"
#include "settings/parse.h"

namespace snug {

struct OptionMaker {
  template <typename T>
  static Option row(std::string_view key, T Options::*member, std::string_view help,
                    const OptionTraits& traits) {
    Option o;
    static_cast<OptionTraits&>(o) = traits;
    o.key = key;
    o.help = help;
    o.kind = std::is_same_v<T, bool>      ? ValueKind::flag
             : std::is_same_v<T, int64_t> ? ValueKind::whole
             : std::is_same_v<T, double>  ? ValueKind::number
                                          : ValueKind::text;
    o.words = words_of<T>();
    o.offset = offset_of(member);
    o.size = sizeof(T);
    o.text = [member](const Options& options) { return print_setting(options.*member); };
    o.parse_ = [member, key](Options& options, std::string_view text) {
      options.*member = parse_setting<T>(text, key);
    };
    if constexpr (std::is_same_v<T, bool>)
      o.flag = [member](Options& options) { return &(options.*member); };
    o.same = [member](const Options& a, const Options& b) { return a.*member == b.*member; };
    o.copy = [member](const Options& from, Options& to) { to.*member = from.*member; };
    o.assign = [member](Options& options, const std::any& value) {
      options.*member = std::any_cast<const T&>(value);
    };
    o.text_of = [](const std::any& value) {
      if constexpr (std::is_same_v<T, double>)
        return fmt::format("{:g}", std::any_cast<double>(value));
      else
        return print_setting(std::any_cast<const T&>(value));
    };
    o.equal = [](const std::any& a, const std::any& b) {
      return std::any_cast<const T&>(a) == std::any_cast<const T&>(b);
    };
    return o;
  }
};

template <typename T>
Option option_row(std::string_view key, T Options::*member, std::string_view help,
                  const OptionTraits& traits = {}) {
  return OptionMaker::row(key, member, help, traits);
}

}  // namespace snug
