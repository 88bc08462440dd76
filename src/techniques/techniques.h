// The one table of memory techniques, joined from their folders (techniques/NAME/row.cpp). The search,
// the advice, `fit`, the ladder, the calibration and the documents read these rows.
//
//   for (const Technique& t : techniques())
//     if (t.touches == Touches::state && t.helps(run, has_budget)) try_with(t.change);
#pragma once

#include <span>
#include <string_view>

#include "techniques/technique.h"

namespace snug {

std::span<const Technique> techniques();
// What it does to the numbers of this run.
Effect effect_in(const Technique& technique, const Settings& run);
// By name; an internal error where there is none.
const Technique& technique(std::string_view name);
const Technique& smallest_of(std::string_view dimension);

std::span<const DimensionRow> dimensions();

}  // namespace snug
