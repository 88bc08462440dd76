// Recompute policies that treat all layers alike, by the share of all work that they recompute.
#pragma once

#include "techniques/recompute/settings.h"

namespace snug {

struct UniformPolicy {
  RecomputePolicy::Kind kind;
  double share;

  RecomputePolicy policy() const {
    return kind == RecomputePolicy::Kind::ratio ? RecomputePolicy{.kind = kind, .ratio = share}
                                                : RecomputePolicy{.kind = kind};
  }
};
inline constexpr UniformPolicy kUniformPolicies[] = {
    {RecomputePolicy::Kind::none, 0},     {RecomputePolicy::Kind::attention, 0.03},
    {RecomputePolicy::Kind::ratio, 0.25}, {RecomputePolicy::Kind::ratio, 0.5},
    {RecomputePolicy::Kind::ratio, 0.75}, {RecomputePolicy::Kind::full, 1}};

}  // namespace snug
