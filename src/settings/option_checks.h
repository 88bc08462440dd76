// What every option's check is made of. Each throws a usage error that names the option.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/text.h"

namespace snug {

inline void require_at_least(int64_t least, int64_t value, std::string_view option) {
  if (value < least) throw usage_error("--{} is {}; it must be at least {}", option, value, least);
}

inline void require_between(double low, double high, double value, std::string_view option) {
  if (!(value >= low && value <= high)) {
    throw usage_error("--{} is {}; it must be between {} and {}", option, value, low, high);
  }
}

// One of the words, or a usage error that lists them.
inline void require_word(std::string_view word, std::string_view option,
                         const std::vector<std::string>& words) {
  for (const std::string& known : words) {
    if (word == known) return;
  }
  throw usage_error("--{} '{}' is not one of {}{}", option, word, join(words, ", "),
                    did_you_mean(word, words));
}

}  // namespace snug
