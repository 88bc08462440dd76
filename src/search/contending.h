// Which variants are worth trying where values move to other memory, by what is expected of them.
//
// A variant contends within some limits if it is one of the few that are expected to be fastest within
// them, or within limits of a fixed series that are no larger. So one that contends within limits of the
// series contends within larger ones, too: more bytes leave little out that was tried with fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "ir/space_bytes.h"

namespace snug {

// A plan of a variant that was not tried.
struct Expected {
  size_t variant = 0;
  SpaceBytes least = {};          // what it takes
  int64_t offloaded = 0;          // bytes of the device that it would take to offload nothing
  double compute = 0, other = 0;  // seconds of the compute lane and of the longest of the others
  double waiting = 0;             // beyond the longer of the two

  // Of a step with as much on the device as these limits allow; infinite where it does not fit.
  double seconds_within(const Limits& limits) const;
  // Of a step with this part of what is offloaded back on the device, from 0 to 1.
  double seconds(double on_device = 0) const;
};

// `all`: those of a variant next to each other. In rising order.
std::vector<size_t> contending(std::span<const Expected> all, const Limits& limits);

// Of these variants those that may turn out to be the fastest when they are tried. Left out is what is
// expected to be slower than another by more than expectations were ever seen to be off.
std::vector<size_t> within_reach(std::span<const size_t> variants, std::span<const Expected> all,
                                 const Limits& limits);

}  // namespace snug
