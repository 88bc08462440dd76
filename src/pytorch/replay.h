// The trace of a snapshot played from its beginning: every allocation with its life, the bytes at
// each moment, and the peak. Moment 0 is before the first event, moment i + 1 after event i.
//
//   const Replay replay = play(snapshot.devices[0]);
//   for (const Allocation& a : replay.allocations) if (a.lives_at(replay.peak)) ...
#pragma once

#include <vector>

#include "pytorch/snapshot.h"

namespace snug::pytorch {

struct Allocation {
  int64_t address = 0;
  int64_t bytes = 0;      // as the allocator counts them
  int64_t requested = 0;  // as they were asked for
  int64_t from = 0;       // the first moment; 0: it was there before the trace
  int64_t to = 0;         // the moment of its end; beyond the last one: it is there still
  StackId stack = 0;
  StackId freed_by = 0;

  bool lives_at(int64_t moment) const { return from <= moment && moment < to; }
};

struct Replay {
  std::vector<Allocation> allocations;  // those from before the trace first, then by birth
  int64_t moments = 1;                  // events + 1
  std::vector<int64_t> reserved;        // bytes of segments, by moment
  int64_t peak = 0;                     // the moment with most allocated bytes
  int64_t peak_allocated = 0;
  int64_t peak_reserved = 0;  // the most there ever were, at whatever moment
  int64_t lost = 0;           // frees of blocks whose allocation the trace no longer has

  int64_t last() const { return moments - 1; }
  bool is_alive_at_end(const Allocation& a) const { return a.to > last(); }
};

Replay play(const DeviceSnapshot& device);

// Allocated bytes by moment, where bytes_of says what an allocation takes: for what if it were
// smaller.
template <typename BytesOf>
std::vector<int64_t> allocated_by_moment(const Replay& replay, const BytesOf& bytes_of) {
  std::vector<int64_t> bytes(static_cast<size_t>(replay.moments) + 1);
  for (const Allocation& a : replay.allocations) {
    const int64_t taken = bytes_of(a);
    bytes[static_cast<size_t>(a.from)] += taken;
    if (a.to <= replay.last()) bytes[static_cast<size_t>(a.to)] -= taken;
  }
  for (size_t i = 1; i < bytes.size(); ++i) bytes[i] += bytes[i - 1];
  bytes.pop_back();
  return bytes;
}

// Bytes of segments that no allocation has at that moment, each range by itself, and the segment's
// own bytes.
struct FreeRange {
  int64_t bytes = 0;
  int64_t segment_bytes = 0;  // equal: the whole segment is free
};
std::vector<FreeRange> free_ranges(const DeviceSnapshot& device, const Replay& replay,
                                   int64_t moment);

}  // namespace snug::pytorch
