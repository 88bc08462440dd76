// Copying and printing JSON recurse: a hostile depth must not reach them.
//
//   require_shallow_json(text, "config.json");   // before it is parsed
#pragma once

#include <string_view>

#include "base/error.h"

namespace snug {

// Throws bad_input for brackets deeper than any file of ours has. Whether it is JSON is the parser's
// to say.
inline void require_shallow_json(std::string_view text, std::string_view where) {
  constexpr int kDeepest = 64;
  int depth = 0;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') quoted = !quoted;
    if (quoted && c == '\\') ++i;
    if (quoted) continue;
    if (c == '[' || c == '{') ++depth;
    if (c == ']' || c == '}') --depth;
    if (depth > kDeepest) throw bad_input("{} nests deeper than {} levels", where, kDeepest);
  }
}

}  // namespace snug
