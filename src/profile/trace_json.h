// A profile as the JSON that Perfetto and chrome://tracing open: lanes are tracks, arrows go from an
// op to those of other lanes that wait for it, counters show memory by category. What was measured is
// one process, what was predicted another.
#pragma once

#include <functional>
#include <string_view>

#include "profile/profile.h"

namespace snug {

// In pieces, so that a long profile needs no memory of its size.
void write_trace_json(const Profile& profile, const std::function<void(std::string_view)>& write);

}  // namespace snug
