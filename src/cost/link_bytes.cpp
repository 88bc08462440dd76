#include "cost/link_bytes.h"

#include <algorithm>
#include <cmath>

#include "ir/op_def.h"

namespace snug {
namespace {

// Of a collective's bytes, as Wire has its rates.
double share_between(const Op& op, const Wire& wire) {
  const int64_t ranks = op.attrs.i("ranks", 2), stride = op.attrs.i("stride", 1);
  if ((ranks - 1) * stride < wire.machine) return 0;
  const int64_t per_machine = std::max<int64_t>(1, wire.machine / stride);
  if (op.def->collective == CollectiveKind::exchange)
    return static_cast<double>(ranks - per_machine) / static_cast<double>(ranks - 1);
  return 1 / static_cast<double>(per_machine);
}

}  // namespace

LinkBytes link_bytes(const Module& module, const Wire& wire) {
  LinkBytes out;
  for (const Program& program : module.programs) {
    const int64_t runs = runs_per_step(module, program.name);
    for (const Op& op : program.ops) {
      if (op.def->comm == Comm::none) continue;
      const int64_t bytes = runs * cost_of(module, op, Backend::cpu).bytes_read;
      const auto between =
          static_cast<int64_t>(std::llround(static_cast<double>(bytes) * share_between(op, wire)));
      out.between += between;
      out.within += bytes - between;
    }
  }
  return out;
}

}  // namespace snug
