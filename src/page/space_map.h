// A space of a plan on a page: what lives at each instant by category, and every value as a rectangle of
// bytes and instants.
#pragma once

#include <optional>

#include "page/axis.h"

namespace snug {

// `limit`: what its arena may take.
Json space_json(const Module& placed, const SpaceBreakdown& memory, Space space, const Axis& axis,
                std::optional<int64_t> limit, Texts& texts);

}  // namespace snug
