// Its rows of the technique table, and what the search may choose of it.
#include "base/error.h"
#include "settings/setting_text.h"
#include "techniques/rows.h"

namespace snug {
namespace {

bool is_adamw(const Settings& s, bool) { return s.recipe.optimizer == OptimizerKind::adamw; }

void refuse_other_moments(const Options& o, const Recipe& r) {
  if (r.optimizer != OptimizerKind::adamw8bit || r.state_dtype == Dtype::f32) return;
  throw usage_error(
      "--optimizer adamw8bit keeps its moments in 8 bits: --state-dtype {} is not a type that "
      "they can take",
      print_setting(o.state_dtype))
      .hint("--optimizer adamw --state-dtype bf16 keeps both moments in 16 bits");
}

constexpr std::string_view kPerMethod = "per method";

}  // namespace

std::vector<Technique> optimizer_rows() {
  return {
      {.name = "bf16 state",
       .dimension = "optimizer",
       .change = {{&Options::state_dtype, StateType::bf16}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = "moments with unbiased stochastic rounding",
       .on_ladder = OnLadder::alone,
       .searched = always,
       .helps =
           [](const Settings& s, bool) {
             return s.recipe.state_dtype == Dtype::f32 &&
                    s.recipe.optimizer != OptimizerKind::adamw8bit;
           }},
      {.name = "adamw8bit",
       .dimension = "optimizer",
       .change = {{&Options::optimizer, OptimizerKind::adamw8bit}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = kPerMethod,
       .on_ladder = OnLadder::together,
       .smallest = true,
       .searched = always,
       .helps = is_adamw,
       .refuse = refuse_other_moments},
      {.name = "adam-mini",
       .dimension = "optimizer",
       .change = {{&Options::optimizer, OptimizerKind::adam_mini}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = kPerMethod,
       .on_ladder = OnLadder::alone,
       .other_method = true,
       .last_resort = true,
       .searched = always,
       .helps = is_adamw},
      // Not searched, nor is SGD: they want another learning rate, which cannot be chosen here.
      // Lion's authors: a rate 3 to 10 times smaller than AdamW's.
      {.name = "lion",
       .dimension = "optimizer",
       .change = {{&Options::optimizer, OptimizerKind::lion}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = kPerMethod,
       .on_ladder = OnLadder::alone,
       .other_method = true,
       .last_resort = true,
       .lr_factor = 0.2,
       .helps =
           [](const Settings& s, bool) {
             return s.recipe.optimizer != OptimizerKind::lion &&
                    s.recipe.optimizer != OptimizerKind::sgd;
           }},
      {.name = "sgd",
       .dimension = "optimizer",
       .change = {{&Options::optimizer, OptimizerKind::sgd}, {&Options::momentum, 0.0}},
       .effect = Effect::learning,
       .touches = Touches::state,
       .numbers = kPerMethod,
       .other_method = true,
       .last_resort = true,
       .helps = [](const Settings& s, bool) { return s.recipe.optimizer != OptimizerKind::sgd; }},
  };
}

DimensionRow optimizer_dimension() {
  return {.name = "optimizer",
          .options = {&option_of(&Options::optimizer), &option_of(&Options::state_dtype)},
          .needs_allow = AllowItem::optimizer};
}

}  // namespace snug
