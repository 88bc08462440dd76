// Lanes from facts: what an op does and where its values are says where it runs.
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

std::string_view lane_of(const Module& module, const Op& op) {
  if (const auto move = move_of(module, op)) return lane_of(*move);
  return space_of(module, op) == Space::device ? kComputeLane : "host_compute";
}

}  // namespace

void assign_lanes(Module& module) {
  for (Program& program : module.programs) {
    for (Op& op : program.ops) op.lane = lane_of(module, op);
  }
}

}  // namespace snug
