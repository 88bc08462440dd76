// Every call of an engine that works on host memory, held to what communicator.h says. All ranks of
// a group run it.
#pragma once

#include "comm/communicator.h"

namespace snug {

// With blocks of so many bytes.
void check_every_call(Communicator& group, int64_t block);

}  // namespace snug
