#include "passes/backward_squares.h"

#include <utility>

#include "ops/optimizer/sum_blocks.h"

namespace snug {
namespace {

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
  std::map<ValueId, ValueId> sums;
  for (const Updates::Trained& t : updates.trained()) {
    if (updates.on_device(t.grad)) continue;
    const Type type{Dtype::f64, {ops::sum_blocks(module[t.grad].type.shape.elements())}};
    sums[t.grad] =
        add_shared(module, "norm." + t.name + ".squares", type, Category::buffers, Scope::step);
  }
  if (sums.empty() || module.program_index(ProgramRole::training_first) < 0) return sums;
  Builder b(module, last_training_program(module));
  b.set_phase(Phase::backward);
  std::vector<Op> ops = std::exchange(b.program().ops, {});
  const Complete complete = when_complete(module, updates, ops);
  for (size_t at = 0; at < ops.size(); ++at) {
    b.program().ops.push_back(std::move(ops[at]));
    for (const auto& [t, version] : complete[at]) {
      b.set_layer(module[t->param].layer);
      const ValueId kept = sums.at(t->grad);
      const ValueId made = ops::sum_squares(b, module[kept].name + ".made", version);
      module[made].base = kept;
      module[made].category = Category::buffers;
    }
  }
  return sums;
}

}  // namespace snug
