// What the reports share: how wide their text is, what is cut to fit, and how JSON says "nothing".
#pragma once

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace snug {

using Json = nlohmann::ordered_json;

inline constexpr int kColumns = 100;

// "model.layers.0.mlp..." and "...layers.0.mlp.down": what is too long, without its end or beginning.
inline std::string without_end(const std::string& text, size_t columns) {
  return text.size() <= columns ? text : text.substr(0, columns - 3) + "...";
}
inline std::string without_beginning(const std::string& text, size_t columns) {
  return text.size() <= columns ? text : "..." + text.substr(text.size() - (columns - 3));
}

// Text in lines of kColumns, broken between words; all but the first begin with `indent` blanks.
inline std::string wrap(const std::string& text, int indent) {
  std::string out;
  int column = indent;
  size_t at = 0;
  while (at < text.size()) {
    const size_t end = std::min(text.find(' ', at), text.size());
    const auto width = static_cast<int>(end - at);
    if (column > indent && column + 1 + width > kColumns) {
      out += "\n" + std::string(static_cast<size_t>(indent), ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += text.substr(at, end - at);
    column += width;
    at = end + 1;
  }
  return out + "\n";
}

// An option's value as it would be typed.
inline std::string typed_text(const Json& option) {
  return option.is_string() ? option.get<std::string>() : option.dump();
}

inline Json or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

template <typename T>
Json or_null(const std::optional<T>& value, T factor = 1) {
  return value ? Json(*value * factor) : Json(nullptr);
}

}  // namespace snug
