#include "plan/plan.h"

#include "ir/verifier.h"
#include "passes/passes.h"
#include "plan/placement.h"

namespace snug {

Plan make_plan(std::string name, const ForwardBuilder& forward, const Recipe& recipe) {
  Plan plan;
  plan.module = compile(std::move(name), forward, recipe);
  place(plan.module);
  verify(plan.module,
         recipe.backend);  // cheap beside the rest, and what it would find must never run
  plan.account = account_of(plan.module, recipe.backend);
  return plan;
}

}  // namespace snug
