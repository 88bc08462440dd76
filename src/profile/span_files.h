// Spans as lines: JSON, one object each, or comma-separated values with a row of names. In JSON an op that
// exchanges with other ranks says which.
#pragma once

#include <functional>
#include <string_view>

#include "profile/profile.h"

namespace snug {

// What was measured comes first.
void write_spans_jsonl(const Profile& profile, const std::function<void(std::string_view)>& write);
void write_spans_csv(const Profile& profile, const std::function<void(std::string_view)>& write);

}  // namespace snug
