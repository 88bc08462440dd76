#include "passes/backward_squares.h"

#include <algorithm>
#include <utility>

#include "ops/optimizer/sum_blocks.h"

namespace snug {
namespace {

// The program that writes gradients last.
ProgramRole last_of_step(const Module& module) {
  return module.program_index(ProgramRole::training_next) >= 0 ? ProgramRole::training_next
                                                               : ProgramRole::training_first;
}

// By op: the gradients that have their last version after it, and that version.
using Complete = std::vector<std::vector<std::pair<const Updates::Trained*, ValueId>>>;

Complete when_complete(const Module& module, const Updates& updates, const std::vector<Op>& ops) {
  std::map<ValueId, std::pair<size_t, ValueId>> last;
  for (size_t at = 0; at < ops.size(); ++at) {
    for (const ValueId id : ops[at].outputs) last[module.root(id)] = {at, id};
  }
  Complete complete(ops.size());
  for (const Updates::Trained& t : updates.trained()) {
    if (updates.on_device(t.grad)) continue;
    const auto& [at, version] = last.at(t.grad);
    complete[at].push_back({&t, version});
  }
  return complete;
}

}  // namespace

std::map<ValueId, ValueId> sum_squares_in_backward(Module& module, const Updates& updates) {
  if (std::ranges::all_of(updates.trained(),
                          [&](const Updates::Trained& t) { return updates.on_device(t.grad); }))
    return {};
  Builder b(module, last_of_step(module));
  b.set_phase(Phase::backward);
  std::vector<Op> ops = std::exchange(b.program().ops, {});
  const Complete complete = when_complete(module, updates, ops);
  std::map<ValueId, ValueId> sums;
  for (size_t at = 0; at < ops.size(); ++at) {
    b.program().ops.push_back(std::move(ops[at]));
    for (const auto& [t, version] : complete[at]) {
      const std::string name = "norm." + t->name + ".squares";
      const Type type{Dtype::f64, {ops::sum_blocks(module[t->grad].type.shape.elements())}};
      const ValueId kept = add_shared(module, name, type, Category::buffers, Scope::step);
      b.set_layer(module[t->param].layer);
      const ValueId made = ops::sum_squares(b, name + ".made", version);
      module[made].base = kept;
      module[made].category = Category::buffers;
      sums[t->grad] = kept;
    }
  }
  return sums;
}

}  // namespace snug
