// What `--allow` opens to the search although it changes results.
#pragma once

#include <string_view>

#include "snug/options.h"

namespace snug {

// Does --allow name it?
bool allows(const Options& options, std::string_view what);
// Throws a usage error where --allow has an unknown word, or names what other options pin.
void check_allow(const Options& options, bool has_budget);

// Options do not say whether a default was typed: what has its default value counts as open.
bool optimizer_is_default(const Options& options);
bool precision_is_default(const Options& options);
bool compress_is_default(const Options& options);

}  // namespace snug
