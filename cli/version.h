// The version of Snug.
#pragma once

#include <string_view>

namespace snug::cli {

// "0.1.0 (321dbb5)", or "0.1.0" where it was not built from a git checkout.
std::string_view version();

}  // namespace snug::cli
