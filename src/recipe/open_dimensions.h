// Which dimensions are open to the search: those whose options are at their defaults, and, where
// another choice changes what is learned, `--allow` names.
#pragma once

#include "snug/options.h"
#include "techniques/techniques.h"

namespace snug {

// Throws a usage error where --allow has nothing to choose for, or names what other options pin.
void check_allow(const Options& options, bool has_budget);

// Options do not say whether a default was given: what has its default value counts as open.
bool is_open(const DimensionRow& dimension, const Options& asked);
bool is_at_default(const Option& option, const Options& asked);

}  // namespace snug
