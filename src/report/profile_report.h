// What `snug profile` and `train --profile` say: lanes, phases, kinds of ops and layers, predicted
// and measured; memory over the step; unneeded memory.
#pragma once

#include <string>

#include "profile/profile.h"

namespace snug {

std::string table_of(const Profile& profile);  // for people; at most 100 columns
std::string json_of(const Profile& profile);   // one line

}  // namespace snug
