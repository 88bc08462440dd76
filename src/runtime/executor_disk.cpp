// The executor's copies from and to disk: whole reads and writes of the file, between it and memory
// that the host addresses.
#include <algorithm>

#include "runtime/executor.h"

namespace snug {

// Nothing for ops that do not touch it.
std::optional<Executor::DiskCopy> Executor::disk_copy_of(const Op& op) const {
  const auto on = [&](std::span<const ValueId> ids) {
    return std::ranges::any_of(ids, [&](ValueId id) { return id.valid() && on_disk(id); });
  };
  const bool reads = on(op.inputs), writes = on(op.outputs);
  if (!reads && !writes) return std::nullopt;
  if (!op.def->crosses_spaces || reads == writes)
    throw internal_error("{} '{}' does more with values on disk than copy them", op.def->kind,
                         op.name);
  const ValueId there = writes ? op.outputs[0] : op.inputs[0];
  const ValueId here = writes ? op.inputs[0] : op.outputs[0];
  if (!host_addresses(here))
    throw internal_error("{} '{}' copies between disk and {}", op.def->kind, op.name,
                         device_.name());
  return DiskCopy{writes, place_of(there).offset, range(here), ends_its_storage(there)};
}

void Executor::run_disk_copy(const DiskCopy& copy) const {
  if (copy.writes) {
    disk_->write(copy.offset, copy.memory, copy.rest_is_free);
  } else {
    disk_->read(copy.offset, copy.memory);
  }
}

bool Executor::ends_its_storage(ValueId id) const {
  const ValueId root = module_.root(id);
  return place_of(id).offset + module_[id].type.bytes() ==
         *module_[root].offset + module_[root].storage_bytes();
}

}  // namespace snug
