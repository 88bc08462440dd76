// Removes ops whose results are not read. Writes to shared values and communication always count as
// read.
#include <algorithm>

#include "ir/op_def.h"
#include "passes/passes.h"

namespace snug {

void eliminate_dead(Module& module) {
  std::vector<bool> read(module.values.size());
  auto mark = [&](ValueId id) {
    for (; id.valid(); id = module[id].base) read[static_cast<size_t>(id.index)] = true;
  };
  for (Program& program : module.programs) {
    std::vector<Op> kept;
    for (auto op = program.ops.rbegin(); op != program.ops.rend(); ++op) {
      const bool live =
          op->def->comm != Comm::none ||
          std::any_of(op->outputs.begin(), op->outputs.end(), [&](ValueId id) {
            return read[static_cast<size_t>(id.index)] || module[module.root(id)].shared();
          });
      if (!live) continue;
      for (ValueId id : op->inputs) mark(id);
      mark(op->predicate);
      kept.push_back(std::move(*op));
    }
    std::reverse(kept.begin(), kept.end());
    program.ops = std::move(kept);
  }
  sweep_values(module);
}

}  // namespace snug
