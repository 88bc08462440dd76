// Options from text, for programs that are told them as a command line is.
#pragma once

#include "snug/options.h"

namespace snug {

// As on the command line. Throws a usage error: there is no option of that name, or that is not its
// value.
void set_option(Options& options, std::string_view key, std::string_view value);

}  // namespace snug
