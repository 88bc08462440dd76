// Lanes from facts: what an op does and where its values are says where it runs.
#include "ir/lifetime.h"
#include "ir/op_def.h"
#include "passes/passes.h"

namespace snug {
namespace {

std::string_view lane_of_copy(Space from, Space to) {
  if (from == Space::disk) return "disk_in";
  if (to == Space::disk) return "disk_out";
  return to == Space::device ? "copy_in" : "copy_out";
}

std::string_view lane_of(const Module& module, const Op& op) {
  const Space space = space_of(module, op);
  if (op.def->crosses_spaces && module[op.inputs[0]].space != space)
    return lane_of_copy(module[op.inputs[0]].space, space);
  return space == Space::device ? kComputeLane : "host_compute";
}

}  // namespace

void assign_lanes(Module& module) {
  for (Program& program : module.programs) {
    for (Op& op : program.ops) op.lane = lane_of(module, op);
  }
}

}  // namespace snug
