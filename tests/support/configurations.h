// Small models in several shapes and recipes: what is to hold for every plan is tried on these.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "settings/build_options.h"
#include "settings/recipe.h"

namespace snug {

struct Configuration {
  const char* name;
  std::string model;
  BuildOptions build;
  Recipe recipe = {};
};
std::vector<Configuration> configurations();

void PrintTo(const Configuration& configuration, std::ostream* out);

}  // namespace snug
