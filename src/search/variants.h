// What a run leaves open, and every way to settle it: the search's variants.
//
//   flags_of(open_dimensions(run)[0].alternatives[1].change);   // "--batch 4 --accum 2"
//   PlanSearch search(run.model.config().name, variants_of(run));
//
// Open are, where there is a budget: micro-batches (unless --accum is given) at the same number of
// sequences per step, and the technique table's dimensions (techniques/techniques.h) that options leave
// at their defaults.
#pragma once

#include <string>
#include <vector>

#include "recipe/resolve.h"
#include "search/variant.h"

namespace snug {

struct Alternative {
  Change change = {};  // to what was asked; none leaves it as it is
  Effect effect = Effect::exact;
};

// One thing to choose. Its first alternative is the default.
struct Dimension {
  std::string name;
  std::vector<Alternative> alternatives;
  bool moves = false;       // values to other memory, which makes nothing faster
  bool with_moves = false;  // tried together with those that do
};

std::vector<Dimension> open_dimensions(const Resolved& run);

// Every combination that the options do not refuse, what was asked for first.
std::vector<Variant> variants_of(const Resolved& run);
// The run as it says.
Variant variant_of(const Resolved& run);
Variant variant_of(const Model& model, const Settings& settings, const CostModel& cost_model);

}  // namespace snug
