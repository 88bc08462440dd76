// Which dimensions are open to the search: those whose options are at their defaults, and, where
// another choice changes what is learned, `--allow` names.
#pragma once

#include <string_view>

#include "recipe/techniques.h"
#include "snug/options.h"

namespace snug {

// Does --allow name it?
bool allows(const Options& options, std::string_view dimension);
// Throws a usage error where --allow has an unknown word, or names what other options pin.
void check_allow(const Options& options, bool has_budget);

// Options do not say whether a default was typed: what has its default value counts as open.
bool is_open(const DimensionRow& dimension, const Options& asked);

}  // namespace snug
