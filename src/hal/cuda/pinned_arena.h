// Host memory that a GPU copies from and to by itself: mapped, touched and filled like the CPU's
// own (hal/cpu/guarded_memory.h), then pinned as one piece.
#pragma once

#include <memory>

#include "hal/device.h"

namespace snug::cuda {

// Throws does_not_fit, with the bytes and what helps, where the machine has not so many, does not
// map them, or does not pin them.
std::unique_ptr<Memory> pinned_arena(int64_t bytes);

}  // namespace snug::cuda
