#include "runtime/disk_copy.h"

#include <algorithm>

#include "base/error.h"
#include "ir/op_def.h"

namespace snug {

void DiskCopy::run() const {
  if (writes) {
    file->write(offset, memory, rest_is_free);
  } else {
    file->read(offset, memory);
  }
}

std::optional<DiskCopy> disk_copy_of(const Op& op, const Storage& storage) {
  const auto on = [&](std::span<const ValueId> ids) {
    return std::ranges::any_of(ids, [&](ValueId id) { return id.valid() && storage.on_disk(id); });
  };
  const bool reads = on(op.inputs), writes = on(op.outputs);
  if (!reads && !writes) return std::nullopt;
  if (!op.def->crosses_spaces || reads == writes)
    throw internal_error("{} '{}' does more with values on disk than copy them", op.def->kind,
                         op.name);
  const ValueId there = writes ? op.outputs[0] : op.inputs[0];
  const ValueId here = writes ? op.inputs[0] : op.outputs[0];
  if (!storage.host_addresses(here))
    throw internal_error("{} '{}' copies between disk and {}", op.def->kind, op.name,
                         storage.device().name());
  return DiskCopy{storage.disk(), writes, storage.offset_of(there), storage.range(here),
                  storage.ends_its_storage(there)};
}

}  // namespace snug
