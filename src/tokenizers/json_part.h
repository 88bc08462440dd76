// One object of tokenizer.json, and the words by which errors name it.
//
//   const JsonPart part = JsonPart(json, "tokenizer.json:").part("normalizer");
//   part.where();                 // "tokenizer.json: normalizer"
//   part.type();                  // "NFC"
//   part.flag("lowercase", true)  // its value, or true where it is missing or null
//
// What has another type than asked for is refused as bad_input.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace snug {

class JsonPart {
 public:
  JsonPart(const nlohmann::json& json, std::string where);  // refuses what is no object

  const std::string& where() const { return where_; }
  const nlohmann::json& json() const { return *json_; }
  // "tokenizer.json: normalizer NFC"
  std::string titled() const;

  bool has(std::string_view key) const;  // and it is not null
  std::string type() const { return text("type"); }
  std::string text(std::string_view key) const;
  std::string text(std::string_view key, std::string fallback) const;
  bool flag(std::string_view key, bool fallback) const;
  int64_t number(std::string_view key) const;  // a whole one
  int64_t number(std::string_view key, int64_t fallback) const;
  JsonPart part(std::string_view key) const;
  std::vector<JsonPart> parts(std::string_view key) const;  // a list of objects
  const nlohmann::json& list(std::string_view key) const;

  // Throws: a part of this type does something that Snug does not do.
  [[noreturn]] void refuse_type() const;
  [[noreturn]] void refuse(std::string_view what) const;

 private:
  const nlohmann::json& at(std::string_view key, std::string_view wanted) const;

  const nlohmann::json* json_;
  std::string where_;
};

}  // namespace snug
