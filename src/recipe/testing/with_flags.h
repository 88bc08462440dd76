// Options with flags applied, as the command line would: for tests and benchmarks, which say what
// they want in a line.
//
//   Options o = with_flags(options, "--precision bf16 --update-in-backward");
#pragma once

#include <string>
#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "base/number.h"
#include "base/text.h"
#include "recipe/change.h"

namespace snug::testing {

// A word that is not an option, or a value that is no number where one is due, is an internal
// error.
inline Options with_flags(Options options, std::string_view flags) {
  if (flags.empty()) return options;
  const std::vector<std::string> words = split(flags, ' ');
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string flag = words[i];
    bool known = false;
    each_option(options, [&](std::string_view name, auto& member, std::string_view, OptionUse) {
      if (flag != fmt::format("--{}", name)) return;
      known = true;
      using Member = std::decay_t<decltype(member)>;
      if constexpr (std::is_same_v<Member, bool>) {
        member = true;
      } else if constexpr (std::is_same_v<Member, std::string>) {
        member = words.at(++i);
      } else if (!read_number(words.at(++i), member)) {
        throw internal_error("'{}' is not a number", words[i]);
      }
    });
    if (!known) throw internal_error("'{}' is not an option", flag);
  }
  return options;
}

}  // namespace snug::testing
