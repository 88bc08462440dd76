// Memory by category over a profile as lines of JSON: one for each op of the compute lane before which it changes.
#pragma once

#include <functional>
#include <string_view>

#include "profile/profile.h"

namespace snug {

void write_memory_jsonl(const Profile& profile, const std::function<void(std::string_view)>& write);

}  // namespace snug
