// Its rows of the technique table, and what the search may choose of it.
#include "base/error.h"
#include "settings/setting_text.h"
#include "techniques/rows.h"

namespace snug {
namespace {

bool freezes(const Settings& s, const DeviceSpec&) { return s.recipe.adapters.on(); }
bool freezes_whole_weights(const Settings& s, bool) {
  return s.recipe.adapters.on() && s.recipe.base == BaseKind::plain;
}

void refuse_trained_base(const Options&, const Recipe& r) {
  if (r.base == BaseKind::plain || r.adapters.on()) return;
  throw usage_error("--base-dtype {} is for weights that are not trained", print_setting(r.base))
      .hint("give --lora too, for example --lora r=16; full training keeps its weights whole");
}

}  // namespace

std::vector<Technique> base_rows() {
  return {
      {.name = "nf4 base",
       .dimension = "base",
       .change = {{&Options::base_dtype, BaseKind::nf4}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "frozen weights rounded to 4 bits",
       .smallest = true,
       .searched = freezes,
       .helps = freezes_whole_weights,
       .refuse = refuse_trained_base},
      {.name = "int8 base",
       .dimension = "base",
       .change = {{&Options::base_dtype, BaseKind::int8}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "frozen weights rounded to 8 bits",
       .searched = freezes,
       .helps = freezes_whole_weights},
  };
}

DimensionRow base_dimension() {
  return {.name = "base",
          .options = {&option_of(&Options::base_dtype)},
          .needs_allow = AllowItem::base};
}

}  // namespace snug
