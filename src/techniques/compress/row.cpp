// Its rows of the technique table, and what the search may choose of it.
#include "techniques/rows.h"

namespace snug {

std::vector<Technique> compress_rows() {
  return {
      {.name = "int8 activations",
       .dimension = "compress",
       .change = {{&Options::compress, CompressKind::int8}},
       .effect = Effect::learning,
       .numbers = "gradients within 2 % (L2) in the tests",
       .on_ladder = OnLadder::alone,
       .smallest = true,
       .searched = always,
       .helps = [](const Settings& s, bool) { return s.recipe.compress == CompressKind::none; }},
  };
}

DimensionRow compress_dimension() {
  return {.name = "compress",
          .options = {&option_of(&Options::compress)},
          .needs_allow = AllowItem::compress};
}

}  // namespace snug
