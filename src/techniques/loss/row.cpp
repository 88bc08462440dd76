// Its rows of the technique table, and what the search may choose of it.
#include "techniques/rows.h"

namespace snug {

std::vector<Technique> loss_rows() {
  return {
      {.name = "whole loss",
       .dimension = "loss",
       .change = {{&Options::loss, LossChoice{.chunked = false}}},
       .effect = Effect::rounding,
       .numbers = kRounding,
       .searched = always},
      {.name = "chunked loss",
       .dimension = "loss",
       .change = {{&Options::loss, LossChoice{.chunked = true}}},
       .effect = Effect::rounding,
       .numbers = kRounding,
       .on_ladder = OnLadder::together,
       .smallest = true,
       .helps = [](const Settings& s, bool) { return !s.build.chunked_loss; }},
  };
}

DimensionRow loss_dimension() {
  return {.name = "loss", .options = {&option_of(&Options::loss)}, .of_sequences = true};
}

}  // namespace snug
