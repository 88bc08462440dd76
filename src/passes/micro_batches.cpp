#include "passes/micro_batches.h"

#include <algorithm>

#include "ir/builder.h"
#include "passes/shared_names.h"

namespace snug {
namespace {

// The inputs of another micro-batch than the first, which have values of their own.
class OwnInputs {
 public:
  OwnInputs(Module& module, int64_t micro_batch) : module_(module), micro_batch_(micro_batch) {}

  void give(std::vector<Op>& ops) {
    for (Op& op : ops) {
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
    if (!is_of_micro_batch(module_[id])) return id;
    const Value value = module_[id];
    const std::string name = micro_batch_input(value.name, micro_batch_);
    const ValueId found = module_.find_shared(name);
    return found.valid() ? found
                         : add_shared(module_, name, value.type, value.category, value.scope);
  }

  Module& module_;
  int64_t micro_batch_;
};

}  // namespace

bool is_of_micro_batch(const Value& value) {
  return value.shared() && value.category == Category::inputs &&
         std::ranges::count(shared_names::kOfStep, value.name) == 0;
}

std::string micro_batch_input(std::string_view name, int64_t micro_batch) {
  return micro_batch == 0 ? std::string(name) : fmt::format("{}@{}", name, micro_batch);
}

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

void give_own_inputs(Module& module, std::vector<Op>& ops, int64_t micro_batch) {
  if (micro_batch > 0) OwnInputs(module, micro_batch).give(ops);
}

void replace_program(Module& module, int32_t index, Program program) {
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

}  // namespace snug
