#include "formats/json_fields.h"

#include "base/units.h"
#include "formats/json_depth.h"
#include "formats/json_error.h"

namespace snug {
namespace {

// "a string (\"12\")": what the file holds, cut short where it is long.
std::string described(const OrderedJson& value) {
  constexpr size_t kLongest = 40;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true);
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  const std::string_view article = value.is_array() || value.is_object() ? "an" : "a";
  return fmt::format("{} {} ({})", article, value.type_name(), text);
}

}  // namespace

OrderedJson parse_json_object(std::string_view text, std::string_view where) {
  require_shallow_json(text, where);
  OrderedJson json;
  try {
    json = OrderedJson::parse(text);
  } catch (const OrderedJson::exception& e) {
    throw bad_input("{} is not valid JSON: {}", where, plain_words(e))
        .hint("the file is damaged or cut short; download or write it again");
  }
  if (!json.is_object())
    throw bad_input("{} holds {} instead of a JSON object", where, described(json));
  return json;
}

const OrderedJson* JsonFields::find(std::string_view key) const {
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

Error JsonFields::wrong_type(std::string_view key, std::string_view wanted) const {
  return refusal(key, "is {}, not {}", described(*object_.find(key)), wanted);
}

std::string_view JsonFields::either(std::string_view key, std::string_view other) const {
  if (!has(other)) return key;
  if (has(key) && *find(key) != *find(other)) {
    throw refusal(key, "is {} but {}{} is {}", find(key)->dump(), prefix_, other,
                  find(other)->dump());
  }
  return other;
}

std::optional<int64_t> JsonFields::nullable_size(std::string_view key,
                                                 std::optional<int64_t> otherwise,
                                                 int64_t limit) const {
  if (!present(key)) return otherwise;
  const OrderedJson* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) throw wrong_type(key, "a whole number");
  if (value->is_number_unsigned() && value->get<uint64_t>() > static_cast<uint64_t>(limit)) {
    throw refusal(key, "is {}, more than the {} that Snug takes", value->dump(),
                  format_exact(limit));
  }
  const auto n = value->get<int64_t>();
  if (n < 1) throw refusal(key, "is {} and must be at least 1", n);
  return n;
}

int64_t JsonFields::size(std::string_view key, int64_t otherwise, int64_t limit) const {
  const auto n = nullable_size(key, otherwise, limit);
  if (!n) throw refusal(key, "is null, not a whole number");
  return *n;
}

std::optional<int64_t> JsonFields::nullable_index(std::string_view key,
                                                  std::optional<int64_t> otherwise,
                                                  int64_t rows) const {
  if (!present(key)) return otherwise;
  const OrderedJson* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_number_integer()) throw wrong_type(key, "a whole number");
  const bool beyond = value->is_number_unsigned()
                          ? value->get<uint64_t>() >= static_cast<uint64_t>(rows)
                          : value->get<int64_t>() < -rows;
  if (beyond) {
    throw refusal(key, "is {}, which is not one of the {} rows", value->dump(), format_exact(rows));
  }
  const auto index = value->get<int64_t>();
  return index < 0 ? index + rows : index;
}

double JsonFields::number(std::string_view key, double otherwise) const {
  const OrderedJson* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_number()) throw wrong_type(key, "a number");
  return value->get<double>();
}

double JsonFields::non_negative(std::string_view key, double otherwise) const {
  const double x = number(key, otherwise);
  if (!(x >= 0)) throw refusal(key, "is {} and must not be negative", x);
  return x;
}

double JsonFields::positive(std::string_view key, double otherwise) const {
  const double x = number(key, otherwise);
  if (!(x > 0)) throw refusal(key, "is {} and must be positive", x);
  return x;
}

double JsonFields::rate(std::string_view key, double otherwise) const {
  const double x = number(key, otherwise);
  if (!(x >= 0 && x < 1)) throw refusal(key, "is {} and must be at least 0 and below 1", x);
  return x;
}

bool JsonFields::flag(std::string_view key, bool otherwise) const {
  const OrderedJson* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) throw wrong_type(key, "true or false");
  return value->get<bool>();
}

std::string JsonFields::text(std::string_view key, std::string otherwise) const {
  const OrderedJson* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_string()) throw wrong_type(key, "a string");
  return value->get<std::string>();
}

std::optional<JsonFields> JsonFields::object(std::string_view key) const {
  const OrderedJson* value = find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_object()) throw wrong_type(key, "an object");
  return JsonFields(*value, where_, prefix_ + std::string(key) + ".");
}

}  // namespace snug
