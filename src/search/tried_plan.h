// A plan that was tried and fits.
#pragma once

#include <cstddef>

#include "search/variant.h"

namespace snug {

struct TriedPlan {
  Variant variant;
  RecomputePolicy policy;
  SpaceBytes arena;
  double seconds = 0;
  size_t of = 0;    // the variant that it began with
  double hope = 0;  // where room was not used yet: what a step is expected to take then
};

}  // namespace snug
