// Where a program is cut for values that live elsewhere (passes/homes): what is brought for one
// segment is there while it runs.
//
//   std::vector<size_t> first = first_of_segments(ops);   // {0, 12, 19}: three segments
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace snug {

// What counts of an op.
struct SegmentOp {
  int32_t layer = 0, micro_batch = 0;
  bool beside = false;   // the host computes it, or it moves bytes: the device goes on meanwhile
  bool updates = false;  // in a program where updates are cut by what they move
  int64_t moved = 0;     // bytes with a home elsewhere
};

// By segment: its first op. A segment is what the device computes of one layer, and of one
// micro-batch, in a row; or the updates of a layer that together move no more than the largest of
// the program does, and what follows them.
std::vector<size_t> first_of_segments(const std::vector<SegmentOp>& ops);

}  // namespace snug
