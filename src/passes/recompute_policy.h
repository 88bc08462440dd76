// Which forward values to keep for the backward pass: what `--recompute` says, as data for the
// pass.
//
//   RecomputePolicy p = parse_recompute("every:4");
//   recompute(module, "micro_first", values_to_keep(module, "micro_first", p));
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/program.h"

namespace snug {

// Layers that are re-derived together: [first, last]. Of what they make, only their input is kept.
struct Segment {
  int32_t first = 0, last = 0;
  friend bool operator==(const Segment&, const Segment&) = default;
};

struct RecomputePolicy {
  enum class Kind : uint8_t { none, full, every, sqrt, ratio, attention, list } kind = Kind::none;
  int64_t every = 1;          // every:N
  double ratio = 1;           // ratio:R
  std::vector<Segment> list;  // list:0,3,5-7: ranges of layers, each layer a segment of its own
};

// none | full | every:N | sqrt | ratio:R | attention | list:0,3,5-7. Throws a usage error.
RecomputePolicy parse_recompute(std::string_view text);

// The segments that a policy makes of L layers. Throws a usage error when it names a layer that is
// not there.
std::vector<Segment> segments_of(const RecomputePolicy& policy, int32_t layers);

// By value id: is it kept from forward to backward?
std::vector<bool> values_to_keep(const Module& module, std::string_view program,
                                 const RecomputePolicy& policy);

}  // namespace snug
