// A run of a random recipe that is saved after some steps and resumed by another, with other
// techniques: every later loss and all of its state have the bits of the run that was never stopped.
#pragma once

#include "support/random_offload.h"

namespace snug {

// By a seed: what is trained, after how many steps it is saved, and how it goes on.
void expect_resume_is_exact(int seed, const ExecutorOptions& options = {},
                            Device* device = nullptr);

}  // namespace snug
