// Reads --config: a TOML file of options, as train saves them in run.toml. Its table [settled],
// what a run chose, pins nothing. What cannot be understood is refused with its line.
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
  // Throws bad_input for what must not be opened as a configuration: a FIFO, a device, a huge file.
  // Else "", as CLI11 wants it.
  static std::string check(const std::string& path);
  // Saving is train's work, from Options.
  std::string to_config(const CLI::App*, bool, bool, std::string) const override { return {}; }

 private:
  const CLI::App& app_;
};

}  // namespace snug::cli
