// A profile as the JSON that chrome://tracing and Perfetto open; trace_events.h says what is in it.
#pragma once

#include <functional>
#include <string_view>

#include "profile/profile.h"

namespace snug {

// In pieces, so that a long profile needs no memory of its size.
void write_trace_json(const Profile& profile, const std::function<void(std::string_view)>& write);

}  // namespace snug
