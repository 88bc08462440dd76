// Lanes from facts: what an op does and where its values are says where it runs.
#include <fmt/format.h>

#include <map>
#include <string>

#include "ir/lifetime.h"
#include "ir/op_def.h"
#include "passes/passes.h"

namespace snug {
namespace {

std::string_view lane_of(const Move& move) {
  if (move.from == Space::disk) return "disk_in";
  if (move.to == Space::disk) return kDiskOutLane;
  return move.to == Space::device ? "copy_in" : "copy_out";
}

// Gathers of parameters do not queue after sums of gradients. A message's two ends name their lane.
std::string comm_lane(const Op& op) {
  if (op.def->comm != Comm::collective)
    return fmt::format("comm.{}.{}", op.attrs.s("axis"), op.attrs.s("lane"));
  return fmt::format("comm.{}.{}", op.attrs.s("axis"),
                     op.def->collective == CollectiveKind::gather ? "gather" : "sum");
}

std::string_view lane_of(const Module& module, const Op& op) {
  if (const auto move = move_of(module, op)) return lane_of(*move);
  return space_of(module, op) == Space::device ? kComputeLane : "host_compute";
}

}  // namespace

void assign_lanes(Module& module) {
  for (Program& program : module.programs) {
    std::map<std::string, int64_t, std::less<>> numbers;  // of collectives, by axis
    for (Op& op : program.ops) {
      if (op.def->comm == Comm::none) {
        op.lane = lane_of(module, op);
      } else {
        op.lane = comm_lane(op);
        if (op.def->comm == Comm::collective) op.attrs.set("seq", numbers[op.attrs.s("axis")]++);
      }
    }
  }
}

}  // namespace snug
