// A plan: the placed module and its memory breakdown. The object that `snug plan` reports is
// the one that runs.
//
//   Plan plan = make_plan("gpt2", model.forward(options), recipe);
//   plan.module.arena_bytes[0];   plan.memory.device().breakdown;
#pragma once

#include <string>

#include "ir/forward.h"
#include "placement/breakdown.h"
#include "settings/recipe.h"

namespace snug {

struct Plan {
  Module module;  // placed
  MemoryBreakdown memory;
};

Plan make_plan(std::string name, const ForwardBuilder& forward, const Recipe& recipe);

// The same for a module that is compiled: of evaluation alone, for example.
Plan make_plan(Module compiled, Backend backend);

// The same for a module that has been placed: a search places many and needs the breakdown of one.
Plan plan_of(Module placed, Backend backend);

}  // namespace snug
