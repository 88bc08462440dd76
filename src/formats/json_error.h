// What a JSON parser's complaint says to a person, without the library's own tag.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace snug {

// "[json.exception.parse_error.101] parse error at line 3, ..." -> "parse error at line 3, ...".
// Valid as long as the exception.
inline std::string_view plain_words(const nlohmann::json::exception& error) {
  std::string_view what = error.what();
  if (const size_t end = what.find("] "); end != what.npos) what.remove_prefix(end + 2);
  return what;
}

}  // namespace snug
