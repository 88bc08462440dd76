// Typed, bounded reading of a JSON object's fields; every refusal names file, field and content.
//
//   JsonFields f(json, "config.json");
//   int64_t layers = f.size("num_hidden_layers", 12, 4096);  // 12 when absent;
//                                                            // "12" or 0: bad_input
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace snug {

using OrderedJson = nlohmann::ordered_json;  // keeps the file's order when it is written back

// Throws bad_input with line and column where the text is not JSON; refuses anything but an object,
// and nesting that no configuration has.
OrderedJson parse_json_object(std::string_view text, std::string_view where);

class JsonFields {
 public:
  // `object` outlives this. `prefix` precedes keys in errors: "rope_scaling.".
  JsonFields(const OrderedJson& object, std::string_view where, std::string prefix = "")
      : object_(object), where_(where), prefix_(std::move(prefix)) {}

  bool present(std::string_view key) const { return object_.contains(key); }
  bool has(std::string_view key) const { return find(key) != nullptr; }  // present and not null

  // The spelling that the file uses; refuses a file that uses both and means different things.
  std::string_view either(std::string_view key, std::string_view other) const;

  // At least 1 and at most `limit`.
  int64_t size(std::string_view key, int64_t otherwise, int64_t limit) const;
  // As size; null means none, absent means `otherwise`.
  std::optional<int64_t> nullable_size(std::string_view key, std::optional<int64_t> otherwise,
                                       int64_t limit) const;

  // A row of a table of `rows`, negative ones counted from its end; null and absent as above.
  std::optional<int64_t> nullable_index(std::string_view key, std::optional<int64_t> otherwise,
                                        int64_t rows) const;

  // For the rest null and absent are the same.
  double number(std::string_view key, double otherwise) const;
  double non_negative(std::string_view key, double otherwise) const;
  double positive(std::string_view key, double otherwise) const;
  double rate(std::string_view key, double otherwise) const;  // in [0, 1)
  bool flag(std::string_view key, bool otherwise) const;
  std::string text(std::string_view key, std::string otherwise) const;
  std::optional<JsonFields> object(std::string_view key) const;
  const OrderedJson* find(std::string_view key) const;  // nullptr: absent or null

  // "dir/config.json: rope_scaling.factor is -1 and must be positive"
  template <typename... Args>
  Error refusal(std::string_view key, fmt::format_string<Args...> format, Args&&... args) const {
    return bad_input("{}: {}{} {}", where_, prefix_, key,
                     fmt::format(format, std::forward<Args>(args)...));
  }
  Error wrong_type(std::string_view key, std::string_view wanted) const;

 private:
  const OrderedJson& object_;
  std::string_view where_;
  std::string prefix_;
};

}  // namespace snug
