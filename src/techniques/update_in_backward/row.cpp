// Its rows of the technique table, and what the search may choose of it.
#include "base/error.h"
#include "techniques/rows.h"

namespace snug {
namespace {

// An update in the middle of backward cannot wait for what is known only at its end.
void refuse_what_comes_late(const Options& o, const Recipe& r) {
  if (!r.update_in_backward) return;
  if (r.clip > 0) {
    throw usage_error(
        "--update-in-backward: clipping by the global norm (--clip {}) needs every gradient before "
        "the first update",
        o.clip)
        .hint("give --clip 0");
  }
  if (r.loss_scale.dynamic) {
    throw usage_error(
        "--update-in-backward: a dynamic loss scale (--loss-scale {}) skips a whole step when any "
        "gradient overflows, and the first ones would be applied by then",
        text(r.loss_scale))
        .hint("give a fixed --loss-scale, or --precision bf16");
  }
}

}  // namespace

std::vector<Technique> update_in_backward_rows() {
  return {
      {.name = "update in backward, unclipped",
       .dimension = "update",
       .change = {{&Options::update_in_backward, true}},
       .touches = Touches::state,
       .numbers = kNothing,
       .helps = [](const Settings& s,
                   bool) { return !s.recipe.update_in_backward && s.recipe.clip == 0; },
       .refuse = refuse_what_comes_late},
      {.name = "update in backward",
       .dimension = "update",
       .change = {{&Options::update_in_backward, true}, {&Options::clip, 0.0}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "no clipping by the global norm",
       .on_ladder = OnLadder::together,
       .smallest = true,
       .other_method = true,
       .helps = [](const Settings& s,
                   bool) { return !s.recipe.update_in_backward && s.recipe.clip > 0; }},
  };
}

}  // namespace snug
