#include "tokenizers/json_part.h"

#include "base/error.h"
#include "base/text.h"

namespace snug {

JsonPart::JsonPart(const nlohmann::json& json, std::string where)
    : json_(&json), where_(std::move(where)) {
  if (!json.is_object()) throw bad_input("{} is not an object", where_);
}

std::string JsonPart::titled() const { return fmt::format("{} {}", where_, printable(type())); }

const nlohmann::json& JsonPart::at(std::string_view key, std::string_view wanted) const {
  const auto found = json_->find(key);
  if (found == json_->end()) throw bad_input("{} has no {} '{}'", where_, wanted, key);
  return *found;
}

bool JsonPart::has(std::string_view key) const {
  const auto found = json_->find(key);
  return found != json_->end() && !found->is_null();
}

std::string JsonPart::text(std::string_view key) const {
  const nlohmann::json& value = at(key, "text");
  if (!value.is_string()) throw bad_input("{}: '{}' is not a text", where_, key);
  return value.get<std::string>();
}

std::string JsonPart::text(std::string_view key, std::string fallback) const {
  return has(key) ? text(key) : std::move(fallback);
}

bool JsonPart::flag(std::string_view key, bool fallback) const {
  if (!has(key)) return fallback;
  const nlohmann::json& value = at(key, "flag");
  if (!value.is_boolean()) throw bad_input("{}: '{}' is not true or false", where_, key);
  return value.get<bool>();
}

int64_t JsonPart::number(std::string_view key) const {
  const nlohmann::json& value = at(key, "number");
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
    throw bad_input("{}: '{}' is not a whole number", where_, key);
  return value.get<int64_t>();
}

int64_t JsonPart::number(std::string_view key, int64_t fallback) const {
  return has(key) ? number(key) : fallback;
}

JsonPart JsonPart::part(std::string_view key) const {
  return {at(key, "part"), fmt::format("{}{}{}", where_, where_.ends_with(':') ? " " : ".", key)};
}

const nlohmann::json& JsonPart::list(std::string_view key) const {
  const nlohmann::json& value = at(key, "list");
  if (!value.is_array()) throw bad_input("{}: '{}' is not a list", where_, key);
  return value;
}

std::vector<JsonPart> JsonPart::parts(std::string_view key) const {
  std::vector<JsonPart> out;
  for (const nlohmann::json& item : list(key))
    out.emplace_back(item, fmt::format("{}{}{}[{}]", where_, where_.ends_with(':') ? " " : ".", key,
                                       out.size()));
  return out;
}

void JsonPart::refuse_type() const {
  throw bad_input("{}: '{}' is not understood", where_, printable(type()));
}

void JsonPart::refuse(std::string_view what) const { throw bad_input("{}: {}", where_, what); }

}  // namespace snug
