// Its rows of the technique table, and what the search may choose of it.
#include "techniques/rows.h"

namespace snug {
namespace {

RecomputePolicy policy(RecomputePolicy::Kind kind) { return {.kind = kind}; }

bool recomputes(const Settings& s) {
  return s.recipe.recompute.kind != RecomputePolicy::Kind::none;
}
// Compression rounds what is kept, and recompute changes what that is.
Effect of_recompute(const Settings& s) {
  return s.recipe.compress == CompressKind::none ? Effect::exact : Effect::learning;
}

}  // namespace

std::vector<Technique> recompute_rows() {
  return {
      {.name = "recompute every layer",
       .dimension = "recompute",
       .change = {{&Options::recompute, policy(RecomputePolicy::Kind::full)}},
       .numbers = kNothing,
       .on_ladder = OnLadder::together,
       .smallest = true,
       .helps = [](const Settings& s, bool has_budget) { return !has_budget && !recomputes(s); },
       .effect_with = of_recompute},
      {.name = "recompute sqrt",
       .dimension = "recompute",
       .change = {{&Options::recompute, policy(RecomputePolicy::Kind::sqrt)}},
       .numbers = kNothing,
       .on_ladder = OnLadder::alone,
       .effect_with = of_recompute},
      {.name = "recompute attention",
       .dimension = "recompute",
       .change = {{&Options::recompute, policy(RecomputePolicy::Kind::attention)}},
       .numbers = kNothing,
       .on_ladder = OnLadder::alone,
       .effect_with = of_recompute},
      {.name = "recompute nothing",
       .dimension = "recompute",
       .change = {{&Options::recompute, policy(RecomputePolicy::Kind::none)}},
       .touches = Touches::arithmetic,
       .numbers = kNothing,
       .helps = [](const Settings& s, bool has_budget) { return !has_budget && recomputes(s); },
       .effect_with = of_recompute},
  };
}

}  // namespace snug
