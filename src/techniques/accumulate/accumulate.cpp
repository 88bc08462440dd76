// Micro-batches into one step: the first overwrites, the rest add. In horizontal order each is a run
// of its own; otherwise several go through the model together, all of them through a layer before
// the next layer, and what belongs to a layer is there once for all of them.
#include "techniques/accumulate/accumulate.h"

#include <iterator>

#include "passes/micro_batches.h"
#include "passes/updates.h"
#include "settings/recipe.h"

namespace snug {
namespace {

// `n` micro-batches side by side, in the order of the body's layers.
Program together(Module& module, const Program& body, int64_t n, std::string name) {
  std::vector<Program> instances;
  for (int64_t m = 0; m < n; ++m) {
    instances.push_back(clone(module, body, name, m == 0 ? "" : fmt::format("@{}", m)));
    if (m == 0) continue;
    give_own_inputs(module, instances.back().ops, m);
    for (Op& op : instances.back().ops) op.micro_batch = static_cast<int32_t>(m);
  }
  Program out{.name = std::move(name), .role = body.role, .micro_batches = n};
  for (size_t begin = 0, end = 0; begin < body.ops.size(); begin = end) {
    while (end < body.ops.size() && body.ops[end].layer == body.ops[begin].layer) ++end;
    for (Program& instance : instances) {
      std::move(instance.ops.begin() + static_cast<ptrdiff_t>(begin),
                instance.ops.begin() + static_cast<ptrdiff_t>(end), std::back_inserter(out.ops));
    }
  }
  return out;
}

}  // namespace

void accumulate(Module& module, const Recipe& recipe) {
  const int32_t first = module.program_index(ProgramRole::training_first);
  const Program body = module.programs[static_cast<size_t>(first)];
  const auto group = [&](std::string name, ProgramRole role) {
    Program program = recipe.micro_group == 1
                          ? clone(module, body, std::move(name))
                          : together(module, body, recipe.micro_group, std::move(name));
    program.role = role;
    add_to_carried_values(module, program, role != ProgramRole::training_first);
    return program;
  };
  module.step.push_back({1, {body.name}});
  const auto add_region = [&](int64_t times, ProgramRole role) {
    if (times < 1) return;
    const std::string name(program_name(role));
    module.programs.push_back(group(name, role));
    module.step.push_back({times, {name}});
  };
  const int64_t rest = recipe.groups() - 1;
  const bool last_differs = rest > 0 && (recipe.update_in_backward || recipe.sharding.on() ||
                                         recipe.mesh.tp > 1 || updates_weights_first(recipe));
  add_region(last_differs ? rest - 1 : rest, ProgramRole::training_next);
  add_region(last_differs ? 1 : 0, ProgramRole::training_last);
  if (recipe.micro_group > 1)
    replace_program(module, first, group(body.name, ProgramRole::training_first));
}

}  // namespace snug
