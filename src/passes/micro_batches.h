// What programs of several micro-batches are made with (techniques/accumulate/accumulate, techniques/pipeline/pipeline).
#pragma once

#include "ir/program.h"

namespace snug {

// Turns writes of carried values into sums with what they held before: every one where the program
// adds to earlier ones, else all but the first.
void add_to_carried_values(const Module& module, Program& program, bool adds);

// What belongs to each micro-batch is that one's own input.
void give_own_inputs(Module& module, std::vector<Op>& ops, int64_t micro_batch);

// Puts `program`, whose values say that it comes last, in the place of another.
void replace_program(Module& module, int32_t index, Program program);

}  // namespace snug
