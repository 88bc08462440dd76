// Micro-batches into one step: the first overwrites, the rest add. In horizontal order each is a run
// of its own; otherwise several go through the model together, all of them through a layer before
// the next layer, and what belongs to a layer is there once for all of them.
#include <algorithm>
#include <array>

#include "ir/builder.h"
#include "passes/passes.h"
#include "passes/updates.h"

namespace snug {
namespace {

// Turns writes of carried values into sums with what they held before: every one where the program
// adds to earlier ones, else all but the first.
void add_to_carried_values(const Module& module, Program& program, bool adds) {
  std::vector<ValueId> latest(module.values.size());
  for (Op& op : program.ops) {
    for (size_t o = 0; o < op.outputs.size(); ++o) {
      if (module[op.outputs[o]].owns_bytes()) continue;
      const ValueId target = module.root(op.outputs[o]);
      if (module[target].scope != Scope::step) continue;
      ValueId& last = latest[static_cast<size_t>(target.index)];
      const ValueId before = last.valid() || !adds ? last : target;
      last = op.outputs[o];
      if (!before.valid()) continue;
      const int port = op.def->accumulator_of(static_cast<int>(o));
      if (port < 0) {
        throw internal_error("{} '{}' cannot add to {}: its output '{}' has no accumulator",
                             op.def->kind, op.name, module[target].name, op.def->outputs[o].name);
      }
      op.inputs[static_cast<size_t>(port)] = before;
    }
  }
}

// The inputs of another micro-batch than the first, which have values of their own.
class OwnInputs {
 public:
  OwnInputs(Module& module, int64_t micro_batch) : module_(module), micro_batch_(micro_batch) {}

  void give(Program& instance) {
    for (Op& op : instance.ops) {
      for (ValueId& id : op.inputs) id = own(id);
      op.predicate = own(op.predicate);
    }
  }

 private:
  ValueId own(ValueId id) {
    if (!id.valid()) return id;
    if (!module_[id].shared()) {
      if (module_[id].base.valid()) module_[id].base = own(module_[id].base);
      return id;
    }
    if (std::ranges::count(shared_names::kMicroBatch, module_[id].name) == 0) return id;
    const Value value = module_[id];
    const std::string name = micro_batch_input(value.name, micro_batch_);
    const ValueId found = module_.find_shared(name);
    return found.valid() ? found
                         : add_shared(module_, name, value.type, value.category, value.scope);
  }

  Module& module_;
  int64_t micro_batch_;
};

// `n` micro-batches side by side, in the order of the body's layers.
Program together(Module& module, const Program& body, int64_t n, std::string name) {
  std::vector<Program> instances;
  for (int64_t m = 0; m < n; ++m) {
    instances.push_back(clone(module, body, name, m == 0 ? "" : fmt::format("@{}", m)));
    if (m == 0) continue;
    OwnInputs(module, m).give(instances.back());
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

// Puts `program`, whose values say that it comes last, in the place of another.
void replace(Module& module, int32_t index, Program program) {
  const auto last = static_cast<int32_t>(module.programs.size());
  for (Value& value : module.values) {
    if (value.program == index) {
      value.program = last;
    } else if (value.program == last) {
      value.program = index;
    }
  }
  module.programs[static_cast<size_t>(index)] = std::move(program);
  sweep_values(module);
}

}  // namespace

std::string micro_batch_input(std::string_view name, int64_t micro_batch) {
  return micro_batch == 0 ? std::string(name) : fmt::format("{}@{}", name, micro_batch);
}

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
                                         updates_weights_first(recipe));
  add_region(last_differs ? rest - 1 : rest, ProgramRole::training_next);
  add_region(last_differs ? 1 : 0, ProgramRole::training_last);
  if (recipe.micro_group > 1) replace(module, first, group(body.name, ProgramRole::training_first));
}

}  // namespace snug
