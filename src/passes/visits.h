// When each value with a home elsewhere is on the device in a program (passes/homes.cpp): the program
// cut into segments, the visits of every such value, and what is brought and put where.
#pragma once

#include "ir/by_value.h"
#include "ir/order.h"
#include "passes/passes.h"
#include "passes/visit.h"

namespace snug {

struct ProgramVisits {
  struct Moved {
    ValueId id;  // the value that owns the bytes
    size_t visit;
  };

  std::span<const Extent> extents;  // of the values as they were
  std::vector<bool> on_host;        // by op: does it compute there?
  std::vector<int32_t> segment_of;
  std::vector<size_t> first_of;              // by segment: its first op
  int32_t ahead = 1, kept_ahead = 1;         // how far shared values and kept ones are brought
  ByValue<Homed> homed = {};                 // by the value that owns the bytes
  bool any = false;                          // is there one?
  std::vector<std::vector<Moved>> to_bring;  // by segment
  std::vector<std::vector<Moved>> to_put;    // by op: after it
  std::vector<std::vector<Moved>> to_bring_after;  // by op that writes it at home
  ByValue<int32_t> written = {};                   // by the value that owns the bytes: the last op

  const Extent& extent(ValueId id) const { return extents[static_cast<size_t>(id.index)]; }
  ValueId root(ValueId id) const { return extent(id).root; }
  int32_t segment(int32_t at) const { return segment_of[static_cast<size_t>(at)]; }
  bool is_on_host(int32_t at) const { return on_host[static_cast<size_t>(at)]; }
  // In segments.
  int32_t ahead_of(const Homed& value) const { return value.shared ? ahead : kept_ahead; }
  int32_t ahead_of(const Homed& value, const Visit& visit) const;
  int32_t farthest_ahead() const;
};

// `ops`: those of the program, whose values have their homes by now. `extents` outlives the visits.
ProgramVisits visits_of(const Module& module, const Program& program, const std::vector<Op>& ops,
                        std::span<const Extent> extents, const Recipe& recipe);

}  // namespace snug
