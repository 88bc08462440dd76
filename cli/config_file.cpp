#include "config_file.h"

#include <algorithm>
#include <sstream>

#include "arguments.h"
#include "base/error.h"
#include "base/text.h"
#include "formats/toml_file.h"

namespace snug::cli {

std::vector<CLI::ConfigItem> ConfigFile::from_config(std::istream& input) const {
  const auto path = printable(app_.get_config_ptr()->as<std::string>());
  std::ostringstream text;
  text << input.rdbuf();
  const std::vector<std::string> known = option_names(app_);
  std::vector<CLI::ConfigItem> read;
  for (TomlEntry& entry : read_toml(text.view(), path, {"settled"})) {
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      throw usage_error("{}: line {}: {} has no option '{}'{}", path, entry.line, app_.get_name(),
                        printable(entry.key), did_you_mean(entry.key, known))
          .hint(help_hint(app_));
    }
    read.push_back({.parents = {}, .name = std::move(entry.key), .inputs = {entry.value}});
  }
  return read;
}

std::string ConfigFile::check(const std::string& path) {
  constexpr std::uintmax_t kMaxBytes = 1 << 20;
  std::error_code failure;
  const bool exists = std::filesystem::exists(path, failure);
  if (!exists || std::filesystem::is_directory(path, failure)) return "";  // CLI11 says so
  if (!std::filesystem::is_regular_file(path, failure))
    throw bad_input("--config {} is not a regular file", printable(path));
  if (std::filesystem::file_size(path, failure) > kMaxBytes)
    throw bad_input("--config {} is larger than {} bytes, far too large for options",
                    printable(path), kMaxBytes);
  return "";
}

}  // namespace snug::cli
