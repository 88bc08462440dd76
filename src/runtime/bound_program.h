// A placed program with all that a run needs looked up once: ops are bound to kernels, values to
// addresses, lanes to the device's, collectives to groups. It does not change while it runs.
//
//   const BoundProgram program = bind_program(index, storage, lanes, {.math = math});
//   for (size_t at = 0; at < program.ops.size(); ++at) program.run_on_host(at);
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "comm/communicator.h"
#include "ir/op_def.h"
#include "ir/order.h"
#include "ir/program.h"
#include "runtime/collective_calls.h"
#include "runtime/device_lanes.h"
#include "runtime/disk_copy.h"
#include "runtime/storage.h"

namespace snug {

struct BoundProgram {
  // By op.
  std::vector<const Op*> ops;
  std::vector<const Kernel*> kernels;  // nullptr: the runtime moves the bytes
  std::vector<KernelArgs> args;
  std::vector<size_t> batches;  // how many ops run together, at the first of them
  std::vector<std::optional<DiskCopy>> disk_copies;
  std::vector<Communicator*> groups;         // of collectives; nullptr of other ops
  std::vector<std::vector<ValueId>> writes;  // of values that go on from step to step
  std::vector<int32_t> lanes;                // the device's; all 0 where it has one

  std::optional<Order> order;       // where there are several lanes
  std::vector<int32_t> side_lanes;  // of a device with streams, without lane 0
  bool writes_state = false;

  // Bytes that begin to live before an op, and end after it.
  std::span<const std::span<std::byte>> born(size_t at) const { return part(lifetimes[at].born); }
  std::span<const std::span<std::byte>> dead(size_t at) const { return part(lifetimes[at].dead); }

  // One op on this thread; done on return.
  void run_on_host(size_t at) const;

  struct Part {
    size_t first = 0, count = 0;
  };
  struct Lifetimes {
    Part born, dead;  // in `ranges`
  };
  std::span<const std::span<std::byte>> part(Part p) const {
    return std::span(ranges).subspan(p.first, p.count);
  }
  std::vector<Lifetimes> lifetimes;  // by op
  std::vector<std::span<std::byte>> ranges;
  std::vector<Tensor> tensors;  // `args` point in here
};

struct BindOptions {
  Math math = {};
  bool one_by_one = false;  // on streams: no batches, and all on lane 0
};

// Throws where a device has no kernel for an op, or an op goes to other ranks and there are none.
void require_runnable(const Program& program, const Module& module, const Device& device,
                      const GroupOf& group_of);

BoundProgram bind_program(size_t index, const Storage& storage, DeviceLanes& lanes,
                          const GroupOf& group_of, const BindOptions& options);

// Does the host compute it, called by a lane of a device with streams?
bool computes_on_host(const BoundProgram& program, size_t at, const Device& device);

}  // namespace snug
