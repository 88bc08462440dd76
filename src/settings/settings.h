// What options settle: how forward is written, which techniques run, which arithmetic is allowed.
// Programs and their costs are functions of it, so it is also the key under which they are cached:
//
//   std::unordered_map<Settings, Estimate> known;   // with what does not matter at its default
#pragma once

#include <functional>

#include "settings/build_options.h"
#include "settings/recipe.h"

namespace snug {

struct Settings {
  BuildOptions build;
  Recipe recipe;
  Math math;
  friend bool operator==(const Settings&, const Settings&) = default;
};

// Equal settings hash alike; what tells settings apart in a search is all that it mixes.
size_t hash_of(const Settings& settings);

}  // namespace snug

template <>
struct std::hash<snug::Settings> {
  size_t operator()(const snug::Settings& settings) const { return hash_of(settings); }
};
