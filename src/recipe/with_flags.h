// Options with flags applied, as the command line would: what is shown is what runs.
//
//   Options o = with_flags(options, "--precision bf16 --update-in-backward");
#pragma once

#include <string_view>

#include "snug/options.h"

namespace snug {

// The flags are Snug's own words: one that is not an option, or a value that is no number where one
// is due, is an internal error.
Options with_flags(Options options, std::string_view flags);

}  // namespace snug
