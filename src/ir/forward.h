// What a model gives to the compiler: how to write its forward pass into a program, and where that
// pass ends.
#pragma once

#include <functional>
#include <string_view>

#include "ir/program.h"

namespace snug {

struct Forward {
  ValueId loss;    // f32 scalar: the sum over the targets that count
  ValueId logits;  // none when the loss never makes them whole
};

// Emits the forward pass into `program`, adding parameters and inputs as shared values where the
// module lacks them. training: dropout is on.
using ForwardBuilder =
    std::function<Forward(Module& module, std::string_view program, bool training)>;

}  // namespace snug
