// A plan: the placed module and the account of its bytes. The object that `snug plan` reports is
// the one that runs.
//
//   Plan plan = make_plan("gpt2", model.forward(options), recipe);
//   plan.module.arena_bytes[0];   plan.account.device().breakdown;
#pragma once

#include <string>

#include "ir/forward.h"
#include "passes/recipe.h"
#include "plan/account.h"

namespace snug {

struct Plan {
  Module module;  // placed
  Account account;
};

Plan make_plan(std::string name, const ForwardBuilder& forward, const Recipe& recipe);

// The same for a module that has been placed: a search places many and needs the account of one.
Plan plan_of(Module placed, Backend backend);

}  // namespace snug
