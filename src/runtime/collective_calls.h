// Ops that go to other ranks: the group of ranks of an op, and the call that moves its bytes.
#pragma once

#include <functional>
#include <string_view>

#include "comm/communicator.h"
#include "hal/device.h"
#include "ir/op_def.h"
#include "ir/program.h"

namespace snug {

// The group that a lane's collectives go to: one for each lane.
using GroupOf = std::function<Communicator&(std::string_view lane, std::string_view axis)>;

// nullptr: the op stays on this rank. Refuses a group that cannot move what is on this device, or of
// another number of ranks.
Communicator* group_for(const Op& op, const GroupOf& group_of, const Device& device);

// On `stream` where the group enqueues, done on return otherwise.
void communicate(const Op& op, Communicator& group, const KernelArgs& args, void* stream);

}  // namespace snug
