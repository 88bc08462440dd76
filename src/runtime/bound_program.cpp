#include "runtime/bound_program.h"

#include <algorithm>

#include "base/error.h"
#include "runtime/batches.h"

namespace snug {
namespace {

Backend backend_of(const Device& device) {
  return device.kind() == DeviceKind::cuda ? Backend::cuda : Backend::cpu;
}

// A copy between spaces, on a device with streams or from and to disk: the runtime moves the bytes.
bool is_moved_by_runtime(const Module& module, const Op& op, const Device& device) {
  if (op.def->comm != Comm::none) return true;
  const auto move = move_of(module, op);
  return move &&
         (device.stream() != nullptr || move->from == Space::disk || move->to == Space::disk);
}

// Does the device's stream run the op's kernel? Else the host does.
bool on_stream(const Module& module, const Op& op, const Device& device) {
  return device.stream() != nullptr && space_of(module, op) == Space::device;
}

// nullptr: the op needs none.
const Kernel* kernel_for(const Module& module, const Op& op, const Device& device) {
  if (is_moved_by_runtime(module, op, device)) {
    if (op.predicate.valid())
      throw internal_error("{} '{}' has a predicate, but only moves bytes", op.def->kind, op.name);
    return nullptr;
  }
  const Dtype dtype = kernel_dtype(module, op);
  const Backend backend = backend_in(space_of(module, op), backend_of(device));
  const Kernel* kernel = op.def->find_kernel(backend, dtype);
  if (kernel == nullptr) {
    throw usage_error("{} '{}' has no {} kernel for {}", op.def->kind, op.name, name_of(dtype),
                      backend == Backend::cuda ? "CUDA" : "the CPU");
  }
  if (op.predicate.valid() && module[op.predicate].space != space_of(module, op))
    throw internal_error("{} '{}' computes in another memory than its predicate is in",
                         op.def->kind, op.name);
  if (op.predicate.valid() && on_stream(module, op, device) && !kernel->predicated)
    throw internal_error("{} '{}' has a predicate that its kernel does not read", op.def->kind,
                         op.name);
  return kernel;
}

// Values that go on from step to step.
std::vector<ValueId> state_written_by(const Module& module, const Op& op) {
  std::vector<ValueId> written;
  for_each_access(op, [&](ValueId id, bool writes) {
    const ValueId root = module.root(id);
    if (writes && module[root].scope == Scope::persistent) written.push_back(root);
  });
  return written;
}

void add_lifetimes(BoundProgram& out, size_t index, const Storage& storage) {
  const Module& module = storage.module();
  std::vector<std::vector<ValueId>> born(out.ops.size()), dead(out.ops.size());
  for (size_t i = 0; i < module.values.size(); ++i) {
    const Value& value = module.values[i];
    if (value.program != static_cast<int32_t>(index) || !value.live) continue;
    // A device overwrites dead values in its own memory only.
    if (value.space != Space::device && !shares_host_memory(storage.device())) continue;
    if (value.space == Space::disk) continue;
    born[static_cast<size_t>(std::max(value.live->first, 0))].push_back({static_cast<int32_t>(i)});
    dead[static_cast<size_t>(value.live->last)].push_back({static_cast<int32_t>(i)});
  }
  const auto add_ranges = [&](const std::vector<ValueId>& ids) {
    const size_t first = out.ranges.size();
    for (ValueId id : ids) out.ranges.push_back(storage.storage_range(id));
    return BoundProgram::Part{first, ids.size()};
  };
  for (size_t at = 0; at < out.ops.size(); ++at)
    out.lifetimes.push_back({add_ranges(born[at]), add_ranges(dead[at])});
}

void add_args(BoundProgram& out, const Storage& storage, const Math& math) {
  const Module& module = storage.module();
  Device& device = storage.device();
  size_t tensors = 0;
  for (const Op* op : out.ops) tensors += op->inputs.size() + op->outputs.size();
  out.tensors.reserve(tensors);
  const auto add_tensors = [&](const std::vector<ValueId>& ids) {
    const size_t first = out.tensors.size();
    for (ValueId id : ids)
      out.tensors.push_back(id.valid() && !storage.on_disk(id)
                                ? Tensor{storage.address(id), &module[id].type}
                                : Tensor{});
    return std::span<const Tensor>(out.tensors).subspan(first);
  };
  for (size_t at = 0; at < out.ops.size(); ++at) {
    const Op& op = *out.ops[at];
    const std::span<const Tensor> inputs = add_tensors(op.inputs);
    const std::span<const Tensor> outputs = add_tensors(op.outputs);
    out.args.push_back(
        {inputs, outputs,
         op.workspace.valid() ? storage.range(op.workspace) : std::span<std::byte>{}, op.attrs,
         on_stream(module, op, device) ? device.lane_stream(out.lanes[at]) : nullptr,
         op.predicate.valid() ? reinterpret_cast<const int32_t*>(storage.address(op.predicate))
                              : nullptr,
         math});
  }
}

void give_lanes(BoundProgram& out, DeviceLanes& lanes) {
  for (size_t at = 0; at < out.ops.size(); ++at) {
    const int32_t lane = out.lanes[at] = lanes.number_of(out.ops[at]->lane);
    if (lane != 0 && std::ranges::find(out.side_lanes, lane) == out.side_lanes.end())
      out.side_lanes.push_back(lane);
  }
}

}  // namespace

void BoundProgram::run_on_host(size_t at) const {
  if (disk_copies[at]) return disk_copies[at]->run();
  if (groups[at] != nullptr) return communicate(*ops[at], *groups[at], args[at], nullptr);
  const KernelArgs& a = args[at];
  const Kernel& kernel = *kernels[at];
  if (a.predicate == nullptr || *a.predicate != 0 || kernel.predicated) kernel.run(a);
}

void require_runnable(const Program& program, const Module& module, const Device& device,
                      const GroupOf& group_of) {
  for (const Op& op : program.ops) {
    kernel_for(module, op, device);
    if (op.def->comm != Comm::none && !group_of)
      throw internal_error("{} '{}' goes to other ranks, and there are none", op.def->kind,
                           op.name);
  }
}

BoundProgram bind_program(size_t index, const Storage& storage, DeviceLanes& lanes,
                          const GroupOf& group_of, const BindOptions& options) {
  const Module& module = storage.module();
  const Device& device = storage.device();
  const Program& program = module.programs[index];
  BoundProgram out;
  for (const Op& op : program.ops) {
    out.ops.push_back(&op);
    out.kernels.push_back(kernel_for(module, op, device));
    out.disk_copies.push_back(disk_copy_of(op, storage));
    out.groups.push_back(group_for(op, group_of, device));
    out.writes.push_back(state_written_by(module, op));
    out.writes_state |= !out.writes.back().empty();
  }
  if (std::ranges::any_of(program.ops,
                          [&](const Op& op) { return op.lane != program.ops[0].lane; }))
    out.order.emplace(module, program);
  out.lanes.assign(program.ops.size(), 0);
  if (out.order && device.stream() != nullptr && !options.one_by_one) give_lanes(out, lanes);
  add_args(out, storage, options.math);
  add_lifetimes(out, index, storage);
  if (options.one_by_one) {
    out.batches.assign(program.ops.size(), 1);
  } else {
    out.batches = batch_sizes(out.kernels, out.args, out.order ? &*out.order : nullptr);
  }
  return out;
}

bool computes_on_host(const BoundProgram& program, size_t at, const Device& device) {
  return device.stream() != nullptr && program.kernels[at] != nullptr &&
         program.args[at].stream == nullptr;
}

}  // namespace snug
