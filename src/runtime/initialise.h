// Gives every persistent value its first content, from its initialiser, the seed and its name
// alone.
#pragma once

#include <cstdint>

#include "runtime/executor.h"

namespace snug {

void initialise(Executor& executor, uint64_t seed);

}  // namespace snug
