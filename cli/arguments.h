// Turns arguments and config files into Options. Unknown words are refused with the nearest known
// one.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "snug/options.h"

namespace snug::cli {

// Adds MODEL and every option of `use` (train has all of plan's).
void add_options(CLI::App& app, Options& options, OptionUse use);

// Parses; prints help and returns false when that was asked for; throws a usage error for anything
// wrong.
bool parse(CLI::App& app, std::vector<std::string> arguments);

}  // namespace snug::cli
