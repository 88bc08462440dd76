#include "placement/plan.h"

#include "compile/compile.h"
#include "ir/verifier.h"
#include "placement/placement.h"

namespace snug {

Plan plan_of(Module placed, Backend backend) {
  verify(placed, backend);  // cheap compared with the rest; a wrong plan must never run
  MemoryBreakdown memory = memory_breakdown(placed, backend);
  return {std::move(placed), std::move(memory)};
}

Plan make_plan(std::string name, const ForwardBuilder& forward, const Recipe& recipe) {
  return make_plan(compile(std::move(name), forward, recipe), recipe.backend);
}

Plan make_plan(Module compiled, Backend backend) {
  place(compiled);
  return plan_of(std::move(compiled), backend);
}

}  // namespace snug
