// What a trace shows of a profile, whatever its format: what was measured is one process, what was predicted another; lanes
// are tracks of slices, an op has flows to those of other lanes that wait for it, and counters show memory by category.
//
// One walk describes it to a sink, a slice at a time, so that a long profile needs no memory of its size.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <variant>

#include "profile/profile.h"

namespace snug {

using TraceFact = std::pair<std::string_view, std::variant<int64_t, std::string_view>>;

struct TraceSlice {
  int process = 0, track = 0;
  std::string_view name, category;
  int64_t begin = 0, end = 0;  // nanoseconds; a track's slices follow each other
  std::span<const TraceFact> facts;
  std::span<const int64_t> to, from;  // flows that begin, and that end here; each number is unique
};

// From an op of the compute lane on, so much lives.
struct TraceMemory {
  int process = 0;
  Space space = Space::device;
  int64_t at = 0;  // nanoseconds
  int32_t step = 0;
  const Op* op = nullptr;
  CategoryBytes live{};
};

class TraceSink {
 public:
  TraceSink() = default;
  TraceSink(const TraceSink&) = delete;
  TraceSink& operator=(const TraceSink&) = delete;
  virtual ~TraceSink() = default;

  // Processes count from 1; tracks from 0, in the order in which they are shown. Each is named before
  // anything is on it.
  virtual void name_process(int process, std::string_view name) = 0;
  virtual void name_track(int process, int track, std::string_view name) = 0;
  virtual void add_slice(const TraceSlice& slice) = 0;
  virtual void set_memory(const TraceMemory& memory) = 0;
};

void describe_trace(const Profile& profile, TraceSink& sink);
// No slices.
void describe_memory(const Profile& profile, TraceSink& sink);

}  // namespace snug
