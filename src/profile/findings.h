// Unneeded memory of a run: gaps of the arena, values that are kept longer than an op touches them,
// and a process that grows from step to step.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "ir/program.h"

namespace snug {

// A value at the peak that no op touches any more, or not yet: kept because lanes run side by side.
struct HeldValue {
  std::string name;
  Type type;
  int64_t bytes = 0;
  Lifetime needed, kept;  // ops of its program
};

struct MemoryFindings {
  int64_t arena = 0, max_live = 0;
  int64_t gaps() const { return arena - max_live; }
  std::vector<HeldValue> held;  // the largest first
  int64_t held_bytes = 0;
};
// Of the space's peak, as its memory breakdown has it.
MemoryFindings memory_findings(const Module& placed, Space space);

// Bytes after each of some steps.
struct Growth {
  int64_t steps = 0;  // between the first that counts and the last
  int64_t first = 0, last = 0;
  double bytes_per_step = 0;  // by least squares
  bool leaks = false;         // it grows step by step, by more than transient pages
};
// The first few steps, in which everything is touched for the first time, do not count.
Growth growth_of(std::span<const int64_t> bytes);

}  // namespace snug
