// The fastest and the smallest candidate, found best first: a variant enters a queue with a lower
// bound, is expanded when nothing better is left, and its candidates are tried as their turn comes.
#pragma once

#include <optional>
#include <span>
#include <utility>

#include "search/candidates.h"

namespace snug {

// Of the variants that move nothing; none: nothing fits. The order knows no budget, so more bytes are
// never slower.
std::optional<CandidateId> find_fastest(Candidates& all, std::span<const size_t> variants,
                                        const Limits& limits);
// The fewest bytes on the device, of what stays inside the limits of the other spaces; where nothing
// does, of all.
CandidateId find_smallest(Candidates& all, std::span<const size_t> variants, const Limits& limits);

// Outside the limits of the other spaces comes last, then by bytes on the device.
using SizeKey = std::pair<bool, int64_t>;
SizeKey size_key(const SpaceBytes& bytes, const Limits& limits);

}  // namespace snug
