// Where a program is cut for offloaded values (offload.cpp): what is prefetched for a slot is on the
// device while it runs.
//
//   std::vector<size_t> first = first_of_slots(ops);   // {0, 12, 19}: three slots
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace snug {

// What counts of an op.
struct SlotOp {
  int32_t layer = 0, micro_batch = 0;
  bool overlaps = false;  // the host computes it, or it moves bytes: the device computes meanwhile
  bool updates = false;   // in a program where updates are cut by what they move
  int64_t moved = 0;      // bytes of offloaded values
};

// By slot: its first op. A slot is what the device computes of one layer, and of one
// micro-batch, in a row; or the updates of a layer that together move no more than the largest of
// the program does, and what follows them.
std::vector<size_t> first_of_slots(const std::vector<SlotOp>& ops);

}  // namespace snug
