// Reads --config: lines of `option = value`, as train saves them in run.toml. Values may be quoted,
// # begins a comment, and what cannot be understood is refused with its line.
#pragma once

#include <CLI/CLI.hpp>
#include <istream>
#include <string>
#include <vector>

namespace snug::cli {

class ConfigFile : public CLI::Config {
 public:
  explicit ConfigFile(const CLI::App& app) : app_(app) {}

  // Throws a usage error that names file and line.
  std::vector<CLI::ConfigItem> from_config(std::istream& input) const override;
  // Saving is train's work, from Options.
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

 private:
  const CLI::App& app_;
};

}  // namespace snug::cli
