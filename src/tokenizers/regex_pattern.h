// A pattern as Oniguruma means it, in PCRE2's words.
#pragma once

#include <string>
#include <string_view>

namespace snug {

struct PcrePattern {
  std::string text;
  bool looks_behind = false;  // or at the begin or end of the text: it may not be cut
};

// Throws bad_input for what is not known to mean the same. `where` is for that sentence.
PcrePattern to_pcre(std::string_view pattern, std::string_view where);

}  // namespace snug
