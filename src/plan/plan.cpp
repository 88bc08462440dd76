#include "plan/plan.h"

#include "passes/passes.h"
#include "plan/placement.h"

namespace snug {

Plan make_plan(std::string name, const ForwardBuilder& forward, const Recipe& recipe) {
  Plan plan;
  plan.module = compile(std::move(name), forward, recipe);
  place(plan.module);
  plan.account = account_of(plan.module, recipe.backend);
  return plan;
}

}  // namespace snug
