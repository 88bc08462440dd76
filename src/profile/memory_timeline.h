// The memory of a step over time, from the placed program alone: what lives during every op, by
// category, and up to which byte the arena is used. Its peak is the plan's.
//
//   const MemoryTimeline memory = memory_timeline(module, Space::device);
//   memory.max_reach == module.arena_bytes[0];
#pragma once

#include <string>
#include <vector>

#include "placement/breakdown.h"

namespace snug {

struct MemoryInstant {
  int32_t program = 0, op = 0;
  CategoryBytes live{};  // shared values included
  int64_t reach = 0;     // one past the last live byte
};

struct MemoryTimeline {
  std::vector<std::vector<MemoryInstant>> programs;  // by program of the module, by op
  int64_t max_live = 0, max_reach = 0;               // over all of them
};
MemoryTimeline memory_timeline(const Module& placed, Space space);

// The programs of a step in their order, each run that is alike once.
std::vector<int32_t> programs_in_step(const Module& module);

// What lives where a phase begins and ends.
struct MemorySnapshot {
  std::string label;  // "before forward", "after backward"
  std::string op;     // during which
  CategoryBytes live{};
};
std::vector<MemorySnapshot> phase_snapshots(const Module& placed, const MemoryTimeline& timeline);

}  // namespace snug
