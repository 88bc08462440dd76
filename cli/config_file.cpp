#include "config_file.h"

#include <algorithm>
#include <optional>

#include "arguments.h"
#include "base/error.h"
#include "base/text.h"

namespace snug::cli {
namespace {

bool is_key(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-';
  });
}

// Nothing, or a comment.
bool is_blank(std::string_view text) { return trim(text).empty() || trim(text).front() == '#'; }

// A value in quotes, its escapes undone; nothing when the quotes do not close or more follows.
std::optional<std::string> quoted(std::string_view text) {
  std::string value;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == '"') return is_blank(text.substr(i + 1)) ? std::optional(value) : std::nullopt;
    if (text[i] == '\\' && ++i == text.size()) return std::nullopt;
    value += text[i];
  }
  return std::nullopt;
}

std::optional<std::string> value_of(std::string_view text) {
  text = trim(text);
  if (text.starts_with('"')) return quoted(text);
  text = trim(text.substr(0, text.find('#')));
  return text.empty() ? std::nullopt : std::optional<std::string>(text);
}

std::optional<CLI::ConfigItem> item_of(std::string_view line) {
  const size_t equals = line.find('=');
  if (equals == line.npos) return std::nullopt;
  const std::string_view key = trim(line.substr(0, equals));
  const std::optional<std::string> value = value_of(line.substr(equals + 1));
  if (!is_key(key) || !value) return std::nullopt;
  return CLI::ConfigItem{.parents = {}, .name = std::string(key), .inputs = {*value}};
}

}  // namespace

std::vector<CLI::ConfigItem> ConfigFile::from_config(std::istream& input) const {
  const auto path = app_.get_config_ptr()->as<std::string>();
  const std::vector<std::string> known = option_names(app_);
  std::vector<CLI::ConfigItem> read;
  std::string line;
  for (int number = 1; std::getline(input, line); ++number) {
    if (is_blank(line)) continue;
    std::optional<CLI::ConfigItem> item = item_of(line);
    if (!item) {
      throw usage_error("{}: line {} is not of the form option = value", path, number)
          .hint("the options are those of the command line, without the dashes");
    }
    if (std::find(known.begin(), known.end(), item->name) == known.end()) {
      throw usage_error("{}: line {}: {} has no option '{}'{}", path, number, app_.get_name(),
                        item->name, did_you_mean(item->name, known))
          .hint(help_hint(app_));
    }
    read.push_back(std::move(*item));
  }
  return read;
}

}  // namespace snug::cli
