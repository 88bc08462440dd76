// What `snug inspect` and `snug report` share.
#pragma once

#include <string>

#include "pytorch/snapshot.h"

namespace snug {

// Throws bad_input where the file is no snapshot, or there is nothing in it.
pytorch::Snapshot read_some_snapshot(const std::string& file);

}  // namespace snug
