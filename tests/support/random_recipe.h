// A random recipe on a random small model, by a seed: the same on every machine.
#pragma once

#include <string>

#include "models/build_options.h"
#include "passes/recipe.h"

namespace snug {

struct DrawnRecipe {
  std::string model;
  BuildOptions build;
  Recipe recipe;
  std::string text;  // all of it, for the reader of a failure
};
DrawnRecipe draw_recipe(int seed);

}  // namespace snug
