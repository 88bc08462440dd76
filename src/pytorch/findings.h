// What a snapshot tells of one device: the peak and its owners, idle memory, what grows from
// step to step, how an allocation failed, and what changes would save.
//
//   for (const DeviceFindings& d : examine(read_snapshot("snapshot.pickle"))) d.peak.allocated;
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "pytorch/owners.h"

namespace snug::pytorch {

// Bytes of one owner that were made at one place.
struct Share {
  Owner owner = Owner::unknown;
  std::string label;  // "Linear, modeling_gpt2.py:312 forward"; empty: no frames
  int64_t bytes = 0;
  int64_t count = 0;
};

struct PeakFindings {
  int64_t moment = 0;
  int64_t allocated = 0, reserved = 0;
  Phase phase = Phase::bare;  // of the event that led to it
  size_t step = 0;            // from 0
  std::array<int64_t, kOwners> bytes{};
  std::vector<Share> shares;  // the largest first
  double known() const;       // the part of the bytes whose owner is known
};

// Bytes that the allocator holds and no tensor has.
struct Fragmentation {
  int64_t allocated = 0, reserved = 0;
  int64_t whole = 0;    // in segments that are free: empty_cache() returns them
  int64_t split = 0;    // in segments that hold a tensor too
  int64_t largest = 0;  // one free range
  int64_t ranges = 0;
};

// Allocations of one place that every step adds and none frees.
struct Leak {
  std::string label;
  std::vector<std::string> frames;  // innermost first, of the script and its libraries
  int64_t count = 0, bytes = 0;
  int64_t steps = 0;  // in which they were made
};

struct OutOfMemory {
  int64_t asked = 0;
  int64_t device_free = 0;
  int64_t allocated = 0;
  Fragmentation held;  // by the allocator, at that moment
  int64_t times = 0;   // in the trace
  std::string label;
  Phase phase = Phase::bare;
  bool limited = false;  // the device had as much: it is the process that may not have more
  bool expandable_would_do = false;  // free pages of all segments and the device's suffice
};

// What if: the same trace with some allocations smaller, or shorter.
struct Remedy {
  std::string name;  // "checkpointing"
  std::string how;   // in PyTorch
  int64_t peak = 0;
  int64_t saves = 0;
};

struct LiveBlock {
  int64_t address = 0, bytes = 0;
  Owner owner = Owner::unknown;
  bool at_peak = false, at_end = false;
};

struct DeviceFindings {
  int64_t device = 0;
  int64_t events = 0;
  bool has_frames = false;
  int64_t lost = 0;  // frees of what the trace does not know
  PeakFindings peak;
  int64_t peak_reserved = 0;
  Fragmentation at_peak, at_end;
  StepsFrom steps_from = StepsFrom::nothing;
  std::vector<int64_t> least_in_step;  // the fewest allocated bytes of each step
  std::vector<Leak> leaks;             // the largest first
  std::optional<OutOfMemory> oom;      // the last
  std::vector<Remedy> remedies;        // what saves most first
  std::vector<LiveBlock> blocks;       // at the peak or at the end
};

std::vector<DeviceFindings> examine(const Snapshot& snapshot);

// Bytes that each step adds and none frees, from the second on; 0 for fewer than three steps.
double growth_per_step(const DeviceFindings& findings);

}  // namespace snug::pytorch
