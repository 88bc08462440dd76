// Its rows of the technique table, and what the search may choose of it.
#include "techniques/rows.h"

namespace snug {
namespace {

bool has_ranks(const Settings& s, const DeviceSpec&) { return s.recipe.sharding.on(); }
bool shares_less_than(const Settings& s, int64_t level) {
  return s.recipe.sharding.on() && s.recipe.sharding.level < level;
}

}  // namespace

std::vector<Technique> zero_rows() {
  return {
      {.name = "share gradients among ranks",
       .dimension = "zero",
       .change = {{&Options::zero, ZeroLevel::gradients}},
       .touches = Touches::state,
       .numbers = kNothing,
       .searched = has_ranks,
       .helps = [](const Settings& s, bool) { return shares_less_than(s, 2); }},
      {.name = "share parameters among ranks",
       .dimension = "zero",
       .change = {{&Options::zero, ZeroLevel::parameters}},
       .touches = Touches::state,
       .numbers = kNothing,
       .smallest = true,
       .searched = has_ranks,
       .helps = [](const Settings& s, bool) { return shares_less_than(s, 3); }},
  };
}

DimensionRow zero_dimension() {
  return {.name = "zero",
          .options = {&option_of(&Options::zero), &option_of(&Options::shard)},
          .with_moves = true};
}

}  // namespace snug
