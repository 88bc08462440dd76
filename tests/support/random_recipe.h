// A random recipe on a random small model, by a seed: the same on every machine.
#pragma once

#include <string>
#include <vector>

#include "settings/build_options.h"
#include "settings/recipe.h"

namespace snug {

struct DrawnRecipe {
  std::string model;
  BuildOptions build;
  Recipe recipe;
  std::string text;  // all of it, for the reader of a failure
};
DrawnRecipe draw_recipe(int seed);
// How many seeds a test tries: `usually`, or what SNUG_SEEDS says, for a long run.
int seeds_to_try(int usually);

// Losses under a recipe and under the same one that keeps everything for backward. Recompute is
// exact; with int8 it changes which values are rounded, so that only the first loss is the same.
void expect_as_kept(const DrawnRecipe& drawn, const std::vector<float>& losses,
                    const std::vector<float>& kept);

}  // namespace snug
