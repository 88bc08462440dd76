// A profile as Perfetto's own trace, a protocol buffer; trace_events.h says what is in it. It has about a third of the
// JSON's bytes, and its counters have a unit.
#pragma once

#include <functional>
#include <string_view>

#include "profile/profile.h"

namespace snug {

// In pieces, so that a long profile needs no memory of its size: of each name one copy.
void write_trace_perfetto(const Profile& profile,
                          const std::function<void(std::string_view)>& write);

}  // namespace snug
