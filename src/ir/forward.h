// What a model gives to the compiler: how to write its forward pass into a program, and where that
// pass ends.
#pragma once

#include <functional>
#include <string_view>

#include "ir/program.h"

namespace snug {

struct Forward {
  ValueId loss;    // f32 scalar: the sum over the targets that count
  ValueId logits;  // none where they are scratch of the loss
};

// Emits the forward pass into `program`, adding parameters and inputs as shared values where the
// module lacks them. training: dropout is on.
using ForwardBuilder =
    std::function<Forward(Module& module, std::string_view program, bool training)>;

// Emits a program that takes the next `tokens` of one sequence after those whose keys and values
// its module keeps, and writes theirs. Gives the logits of the last one, or none where they are not
// wanted.
using CachedForwardBuilder =
    std::function<ValueId(Module& module, std::string_view program, int64_t tokens, bool logits)>;

// Opens the program of that role, or adds it, and emits the forward pass into it.
Forward add_forward(Module& module, const ForwardBuilder& forward, ProgramRole role);

}  // namespace snug
