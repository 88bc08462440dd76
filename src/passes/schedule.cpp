// Gives every op its scratch and every value its lifetime. Ops run in list order.
#include "ir/lifetime.h"
#include "ir/op_def.h"
#include "passes/passes.h"

namespace snug {

Orders schedule(Module& module, Backend backend) {
  for (size_t p = 0; p < module.programs.size(); ++p) {
    for (Op& op : module.programs[p].ops) {
      const Space space = space_of(module, op);
      const int64_t bytes = cost_of(module, op, backend_in(space, backend)).workspace;
      if (bytes == 0) continue;
      Value scratch;
      scratch.space = space;
      scratch.name = op.name + ".scratch";
      scratch.type = {Dtype::u8, {bytes}};
      scratch.category = Category::workspace;
      scratch.program = static_cast<int32_t>(p);
      scratch.layer = op.layer;
      op.workspace = module.add(std::move(scratch));
    }
  }
  module.level = Level::step;
  return compute_lifetimes(module);
}

}  // namespace snug
