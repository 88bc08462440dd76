#include "placement/placement.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "placement/space_values.h"

namespace snug {
namespace {

// Persistent and step-scoped values, one after another from byte 0.
void place_shared(Module& module, Space space, PlacementStats& stats) {
  for (Value& value : module.values) {
    if (!resides_shared(value, space)) continue;
    value.offset = round_up(stats.arena_bytes, alignment_of(space));
    stats.arena_bytes = checked_add(*value.offset, value.storage_bytes(), "the arena");
    stats.max_live_bytes += value.storage_bytes();
  }
}

// The locals of one program, from `base` up.
void place_locals(Module& module, int32_t program, Space space, int64_t base, int64_t effort,
                  PlacementStats& stats) {
  std::vector<Value*> locals;
  std::vector<Block> blocks;
  int64_t stacked = base;  // no packing is taller, so no offset overflows
  for (Value& value : module.values) {
    if (!resides_local(value, space, program)) continue;
    locals.push_back(&value);
    blocks.push_back(block_of(value));
    stacked = checked_add(stacked, round_up(blocks.back().bytes, alignment_of(space)), "the arena");
  }
  const Packing packing = pack(blocks, alignment_of(space), effort);
  for (size_t i = 0; i < locals.size(); ++i) locals[i]->offset = base + packing.offsets[i];
  stats.transient_arena_bytes = std::max(stats.transient_arena_bytes, packing.height);
  stats.transient_max_live_bytes = std::max(stats.transient_max_live_bytes, packing.max_live);
}

PlacementStats place_space(Module& module, Space space, int64_t effort) {
  PlacementStats stats;
  place_shared(module, space, stats);
  const int64_t base = round_up(stats.arena_bytes, alignment_of(space));
  for (size_t p = 0; p < module.programs.size(); ++p) {
    place_locals(module, static_cast<int32_t>(p), space, base, effort, stats);
  }
  if (stats.transient_arena_bytes > 0) stats.arena_bytes = base + stats.transient_arena_bytes;
  stats.max_live_bytes += stats.transient_max_live_bytes;
  return stats;
}

}  // namespace

double PlacementStats::ratio() const {
  if (transient_max_live_bytes == 0) return 1;
  return static_cast<double>(transient_arena_bytes) / static_cast<double>(transient_max_live_bytes);
}

std::array<PlacementStats, kSpaces> place(Module& module, int64_t effort) {
  if (module.level != Level::step) {
    throw internal_error("module '{}' is at level {}: only a step can be placed", module.name,
                         name_of(module.level));
  }
  std::array<PlacementStats, kSpaces> stats;
  for (int s = 0; s < kSpaces; ++s) {
    stats[static_cast<size_t>(s)] = place_space(module, static_cast<Space>(s), effort);
    module.arena_bytes[s] = stats[static_cast<size_t>(s)].arena_bytes;
  }
  module.level = Level::placed;
  return stats;
}

}  // namespace snug
