// Placement: a step-level module -> a placed one, where every value that owns bytes has its offset.
//
// Shared values come first, in declaration order; after them each program's locals, every
// program from the same offset, so that the arena is their maximum. A pure function of the module:
// every machine gets the same plan.
//
//   auto stats = place(module);   module.arena_bytes[0];   stats[0].ratio() <= 1.02
#pragma once

#include <array>
#include <cstdint>

#include "ir/program.h"
#include "placement/packing.h"

namespace snug {

struct PlacementStats {
  int64_t arena_bytes = 0;  // the end of the highest value
  int64_t max_live_bytes =
      0;  // the most bytes that live at one instant, without alignment: no arena is smaller
  // The same for locals alone: what placement can do well or badly.
  int64_t transient_arena_bytes = 0;
  int64_t transient_max_live_bytes = 0;

  double ratio() const;  // of the transient two; 1 when there are no locals
};

// More effort never gives a larger arena.
std::array<PlacementStats, kSpaces> place(Module& module, int64_t effort = kPackingEffort);

}  // namespace snug
