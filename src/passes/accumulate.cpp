// Micro-batches into one step: the first overwrites, the rest add.
#include "passes/passes.h"

namespace snug {
namespace {

// Turns the first write of each carried value into a sum with what it held before.
void add_to_carried_values(const Module& module, Program& program) {
  std::vector<bool> written(module.values.size());
  for (Op& op : program.ops) {
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      if (module[op.outputs[o]].owns_bytes()) continue;
      const ValueId target = module.root(op.outputs[o]);
      if (module[target].scope != Scope::step || written[static_cast<size_t>(target.index)])
        continue;
      written[static_cast<size_t>(target.index)] = true;
      const int port = op.def->accumulator_of(static_cast<int>(o));
      if (port < 0 || op.inputs[static_cast<size_t>(port)].valid()) {
        throw internal_error("{} '{}' cannot add to {}: its output '{}' has no free accumulator",
                             op.def->kind, op.name, module[target].name, op.def->outputs[o].name);
      }
      op.inputs[static_cast<size_t>(port)] = target;
    }
  }
}

}  // namespace

void accumulate(Module& module, const Recipe& recipe) {
  module.step.push_back({1, {module.program(ProgramRole::training_first).name}});
  const auto add_region = [&](int64_t times, ProgramRole role) {
    if (times < 1) return;
    const std::string name(program_name(role));
    Program program = clone(module, module.program(ProgramRole::training_first), name);
    program.role = role;
    add_to_carried_values(module, program);
    module.programs.push_back(std::move(program));
    module.step.push_back({times, {name}});
  };
  const int64_t rest = recipe.accum - 1;
  const bool last_differs = recipe.update_in_backward && rest > 0;
  add_region(last_differs ? rest - 1 : rest, ProgramRole::training_next);
  add_region(last_differs ? 1 : 0, ProgramRole::training_last);
}

}  // namespace snug
