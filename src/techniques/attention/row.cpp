// Its rows of the technique table, and what the search may choose of it.
#include "techniques/rows.h"

namespace snug {

using ops::AttentionKind;

std::vector<Technique> attention_rows() {
  return {
      {.name = "standard attention",
       .dimension = "attention",
       .change = {{&Options::attention, AttentionChoice{AttentionKind::standard}}},
       .effect = Effect::rounding,
       .numbers = kRounding,
       .searched = on_cpu},  // on a GPU slower in any case and no smaller
      {.name = "flash attention",
       .dimension = "attention",
       .change = {{&Options::attention, AttentionChoice{AttentionKind::flash}}},
       .effect = Effect::rounding,
       .numbers = kRounding,
       .on_ladder = OnLadder::together,
       .smallest = true,
       .helps = [](const Settings& s,
                   bool) { return s.build.attention == AttentionKind::standard; }},
      {.name = "chunked attention",
       .dimension = "attention",
       .change = {{&Options::attention, AttentionChoice{AttentionKind::chunked}}},
       .effect = Effect::rounding,
       .numbers = kRounding,
       .on_ladder = OnLadder::alone,
       .searched = on_cpu},
  };
}

DimensionRow attention_dimension() {
  return {.name = "attention", .options = {&option_of(&Options::attention)}, .of_sequences = true};
}

}  // namespace snug
