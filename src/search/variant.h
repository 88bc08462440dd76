// One policy to run a step, with everything settled but what is recomputed: what the search
// compares.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost/cost_model.h"
#include "passes/recipe.h"
#include "search/stack.h"

namespace snug {

// What a choice does to the numbers of a run.
enum class Effect : uint8_t { exact, rounding, learning };

struct Variant {
  std::string name;  // the flags that it takes beyond what was asked for; "" takes none
  Effect effect = Effect::exact;
  std::vector<int> picks = {};  // the alternative that it takes, by dimension
  Stack stack;
  // Variants with the same words have the same layers at the same cost_model, and the same
  // embedding, head and loss: what is known of one is known of the other.
  std::string layers_key = {}, ends_key = {};
  Recipe recipe;  // recompute: automatic is open, all else is pinned
  CostModel cost_model;

  bool recompute_is_open() const {
    return recipe.recompute.kind == RecomputePolicy::Kind::automatic;
  }
};

}  // namespace snug
