// When each offloaded value is on the device in a program (offload.cpp): the program cut into slots, the
// residencies of every such value, and what is prefetched and evicted where.
#pragma once

#include "ir/by_value.h"
#include "ir/order.h"
#include "settings/recipe.h"
#include "techniques/offload/residency.h"

namespace snug {

struct ProgramResidencies {
  struct Moved {
    ValueId id;  // the value that owns the bytes
    size_t residency;
  };

  std::span<const Extent> extents;  // of the values as they were
  std::vector<bool> on_host;        // by op: does it compute there?
  std::vector<int32_t> slot_of;
  std::vector<size_t> first_of;       // by slot: its first op
  int32_t ahead = 1, kept_ahead = 1;  // how far shared values and kept ones are prefetched
  ByValue<Offloaded> offloaded = {};  // by the value that owns the bytes
  bool any = false;                   // is there one?
  std::vector<std::vector<Moved>> to_prefetch;        // by slot
  std::vector<std::vector<Moved>> to_evict;           // by op: after it
  std::vector<std::vector<Moved>> to_prefetch_after;  // by op that writes it in its space
  ByValue<int32_t> written = {};  // by the value that owns the bytes: the last op

  const Extent& extent(ValueId id) const { return extents[static_cast<size_t>(id.index)]; }
  ValueId root(ValueId id) const { return extent(id).root; }
  int32_t slot(int32_t at) const { return slot_of[static_cast<size_t>(at)]; }
  bool is_on_host(int32_t at) const { return on_host[static_cast<size_t>(at)]; }
  // In slots.
  int32_t ahead_of(const Offloaded& value) const { return value.shared ? ahead : kept_ahead; }
  int32_t ahead_of(const Offloaded& value, const Residency& residency) const;
  int32_t farthest_ahead() const;
};

// `ops`: those of the program, whose values have their spaces by now. `extents` outlives the result.
ProgramResidencies residencies_of(const Module& module, const Program& program,
                                  const std::vector<Op>& ops, std::span<const Extent> extents,
                                  const Recipe& recipe);

}  // namespace snug
