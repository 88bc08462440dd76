// A module's first program with all that it is bound to, for tests of what runs it.
#pragma once

#include "runtime/bound_program.h"

namespace snug::testing_ops {

struct Bound {
  Bound(const Module& module, Device& device, const BindOptions& options = {},
        const GroupOf& group_of = {})
      : storage(module, device, "/tmp", failure),
        lanes(device),
        program(bind_program(0, storage, lanes, group_of, options)) {}

  HostFailure failure;
  Storage storage;
  DeviceLanes lanes;
  BoundProgram program;
};

}  // namespace snug::testing_ops
