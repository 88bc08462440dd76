// --deepspeed FILE: options from DeepSpeed's configuration, with those of the command line.
#pragma once

#include <CLI/CLI.hpp>

#include "snug/options.h"

namespace snug::cli {

void add_deepspeed(CLI::App& app);

enum class Quietly : bool { no, yes };
// Adds what the file says to the options, where --deepspeed is given: `options.given` wins. What
// differs is said on stderr.
void use_deepspeed(const CLI::App& app, Options& options, Quietly quietly = Quietly::no);

}  // namespace snug::cli
