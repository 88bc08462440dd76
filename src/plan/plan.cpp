#include "plan/plan.h"

#include "ir/verifier.h"
#include "passes/passes.h"
#include "plan/placement.h"

namespace snug {

Plan plan_of(Module placed, Backend backend) {
  verify(placed, backend);  // cheap beside the rest, and what it would find must never run
  Account account = account_of(placed, backend);
  return {std::move(placed), std::move(account)};
}

Plan make_plan(std::string name, const ForwardBuilder& forward, const Recipe& recipe) {
  Module module = compile(std::move(name), forward, recipe);
  place(module);
  return plan_of(std::move(module), recipe.backend);
}

}  // namespace snug
