// Options from flags, as the command line reads them: for tests and benchmarks, which say what they want in a
// line.
//
//   Options o = with_flags(options, "--precision bf16 --update-in-backward");
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "base/text.h"
#include "settings/option.h"
#include "settings/parse.h"

namespace snug::testing {

// A word that is not an option is an internal error.
inline Options with_flags(Options options, std::string_view flags) {
  if (flags.empty()) return options;
  const std::vector<std::string> words = split(flags, ' ');
  for (size_t i = 0; i < words.size(); ++i) {
    const std::string& flag = words[i];
    const Option* option = flag.starts_with("--") ? find_option(flag.substr(2)) : nullptr;
    if (option == nullptr) throw internal_error("'{}' is not an option", flag);
    parse_option(*option, options, option->kind == ValueKind::flag ? "true" : words.at(++i));
  }
  return options;
}

}  // namespace snug::testing
