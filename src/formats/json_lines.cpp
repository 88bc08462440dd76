#include "formats/json_lines.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/text.h"
#include "base/units.h"
#include "formats/json_depth.h"
#include "formats/json_error.h"

namespace snug {
namespace {

using nlohmann::json;

constexpr std::array<std::string_view, 3> kRoles{"system", "user", "assistant"};

bool has(const json& object, const char* key) {
  return object.contains(key) && !object[key].is_null();
}

std::string string_in(const json& object, const char* key) {
  const json& value = object[key];
  if (!value.is_string())
    throw bad_input("'{}' is of type {}, not a string", key, value.type_name());
  return value.get<std::string>();
}

ChatRole role_of(const json& message) {
  const std::string name = string_in(message, "role");
  const auto* at = std::ranges::find(kRoles, name);
  if (at == kRoles.end())
    throw bad_input("role '{}' is not one of system, user and assistant", printable(name));
  return static_cast<ChatRole>(at - kRoles.begin());
}

// What a template would render and we would lose.
void refuse_more_than_text(const json& message) {
  for (const char* key : {"tool_calls", "reasoning_content", "thinking"}) {
    if (has(message, key) && !message[key].empty())
      throw bad_input("it has '{}', which is not supported", key);
  }
}

ChatMessage read_message(const json& message) {
  if (!message.is_object()) throw bad_input("it is of type {}, not an object", message.type_name());
  for (const char* key : {"role", "content"})
    if (!has(message, key)) throw bad_input("it has no '{}'", key);
  refuse_more_than_text(message);
  return {.role = role_of(message), .content = string_in(message, "content")};
}

JsonSample read_chat(const json& object) {
  const json& messages = object["messages"];
  if (!messages.is_array())
    throw bad_input("'messages' is of type {}, not a list", messages.type_name());
  JsonSample out{.kind = JsonSample::Kind::chat, .text = {}, .completion = {}, .messages = {}};
  for (const json& message : messages) {
    try {
      out.messages.push_back(read_message(message));
    } catch (const Error& error) {
      throw bad_input("message {}: {}", out.messages.size() + 1, error.what());
    }
  }
  return out;
}

json parse_object(std::string_view line) {
  require_shallow_json(line, "it");
  json object;
  try {
    object = json::parse(line);
  } catch (const json::exception& error) {
    throw bad_input("not JSON: {}", printable(plain_words(error)));
  }
  if (!object.is_object()) throw bad_input("it is of type {}, not an object", object.type_name());
  return object;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r\f\v") == std::string_view::npos;
}

}  // namespace

std::string_view name_of(ChatRole role) { return kRoles[static_cast<size_t>(role)]; }

bool JsonSample::is_empty() const {
  switch (kind) {
    case Kind::text:
      return text.empty();
    case Kind::completion:
      return completion.empty();
    case Kind::chat:
      return std::ranges::none_of(
          messages, [](const ChatMessage& m) { return m.role == ChatRole::assistant; });
  }
  return true;
}

JsonSample parse_sample(std::string_view line) {
  const json object = parse_object(line);
  if (has(object, "messages")) return read_chat(object);
  if (has(object, "prompt") && has(object, "completion")) {
    return {.kind = JsonSample::Kind::completion,
            .text = string_in(object, "prompt"),
            .completion = string_in(object, "completion"),
            .messages = {}};
  }
  if (has(object, "text"))
    return {.kind = JsonSample::Kind::text,
            .text = string_in(object, "text"),
            .completion = {},
            .messages = {}};
  throw bad_input("it has neither 'text', nor 'prompt' and 'completion', nor 'messages'");
}

bool LineReader::read_more(int64_t bytes, std::string& into) {
  const int64_t n = std::min(bytes, file_.size() - at_);
  if (n <= 0) return false;
  const size_t before = into.size();
  into.resize(before + static_cast<size_t>(n));
  file_.read(at_, std::as_writable_bytes(std::span(into).subspan(before)));
  at_ += n;
  return true;
}

void LineReader::split_lines(std::string_view text, std::vector<Line>& lines) {
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (++line_ == 1 && line.starts_with(kByteOrderMark)) line.remove_prefix(kByteOrderMark.size());
    if (!is_blank(line)) lines.push_back({.number = line_, .text = line});
  }
}

bool LineReader::read(int64_t bytes, Batch& batch) {
  batch.lines.clear();
  while (batch.lines.empty()) {
    batch.bytes = std::move(rest_);
    rest_.clear();
    size_t end = std::string::npos;
    while (end == std::string::npos && read_more(bytes, batch.bytes)) {
      end = batch.bytes.rfind('\n');
      if (end == std::string::npos && static_cast<int64_t>(batch.bytes.size()) > kLongest)
        throw bad_input("{}:{}: the line is longer than {}", file_.path().string(), line_ + 1,
                        format_bytes(kLongest));
    }
    if (batch.bytes.empty()) return false;
    if (end != std::string::npos && at_ < file_.size()) {
      rest_ = batch.bytes.substr(end + 1);
      batch.bytes.resize(end + 1);
    }
    split_lines(batch.bytes, batch.lines);
  }
  return true;
}

}  // namespace snug
