// Passes that every program needs: functions from program to program, one file each. A memory
// technique's passes are in its folder (techniques/); compile/compile.cpp has the order of all.
#pragma once

#include <string_view>

#include "ir/forward.h"
#include "ir/order.h"
#include "settings/recipe.h"

namespace snug {

// Appends the backward pass to `program`. Every trainable parameter p gets a gradient grad.p,
// carried through the step; the loss goes to the shared value "loss_sum". graph -> graph.
void autodiff(Module& module, std::string_view program, Forward forward, const Recipe& recipe = {});

// Binds a forward-only program's loss to the shared value "loss_sum". graph -> graph.
void bind_loss(Module& module, std::string_view program, ValueId loss);

// Removes ops whose results are not read. graph -> graph.
void eliminate_dead(Module& module);

// Gives every op its lane, by what it does: copies into the device and out of it, to and from disk,
// what runs on the host, and the rest. graph -> graph.
void assign_lanes(Module& module);

// Lets an op write into an input's bytes where its OpDef grants it and no later op reads them.
// graph -> graph.
void in_place(Module& module);

// Gives every op its scratch and every value its lifetime. Returns the orders that say so.
// graph -> step.
Orders schedule(Module& module, Backend backend);

}  // namespace snug
