#include "runtime/storage.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "base/error.h"
#include "hal/cpu/guarded_memory.h"

namespace snug {
namespace {

// Where the device's shared values end.
int64_t transient_floor(const Module& module) {
  int64_t floor = 0;
  for (const Value& value : module.values) {
    if (value.shared() && value.owns_bytes() && value.space == Space::device)
      floor = std::max(floor, *value.offset + value.storage_bytes());
  }
  return floor;
}

}  // namespace

Storage::Storage(const Module& module, Device& device, std::string_view offload_dir,
                 const HostFailure& failure)
    : module_(module), device_(device), failure_(failure) {
  for (size_t s = 0; s < kSpaces; ++s) {
    const int64_t bytes = module.arena_bytes[s];
    const auto space = static_cast<Space>(s);
    if (space == Space::device) {
      arenas_[s] = device.allocate(bytes);
    } else if (bytes > 0 && space == Space::disk) {
      disk_ = std::make_unique<DiskFile>(std::string(offload_dir), bytes);
    } else if (bytes > 0) {
      arenas_[s] = device.allocate_host(bytes);
    }
  }
  const int64_t floor = transient_floor(module);
  transient_ = {device_arena().data() + floor,
                static_cast<size_t>(planned_bytes(Space::device) - floor)};
}

int64_t Storage::planned_bytes(Space space) const {
  return module_.arena_bytes[static_cast<size_t>(space)];
}
int64_t Storage::allocated_bytes(Space space) const {
  if (space == Space::disk) return disk_ ? disk_->bytes() : 0;
  const auto& arena = arenas_[static_cast<size_t>(space)];
  return arena ? arena->bytes() : 0;
}
int64_t Storage::measured_bytes(Space space) const {
  if (space == Space::disk) return disk_ ? disk_->high_water_mark() : 0;
  const auto& arena = arenas_[static_cast<size_t>(space)];
  return arena ? arena->high_water_mark() : 0;
}

int64_t Storage::offset_of(ValueId id) const {
  int64_t offset = 0;
  for (; module_[id].base.valid(); id = module_[id].base)
    offset += module_[id].view_offset * size_of(module_[id].type.dtype);
  return *module_[id].offset + offset;
}

std::byte* Storage::address(ValueId id) const {
  if (on_disk(id)) throw internal_error("'{}' has no address: it lives on disk", module_[id].name);
  const Space space = module_[module_.root(id)].space;
  return arenas_[static_cast<size_t>(space)]->data() + offset_of(id);
}

std::span<std::byte> Storage::range(ValueId id) const {
  return {address(id), static_cast<size_t>(module_[id].type.bytes())};
}

std::span<std::byte> Storage::storage_range(ValueId id) const {
  return {address(id), static_cast<size_t>(module_[id].storage_bytes())};
}

bool Storage::ends_its_storage(ValueId id) const {
  const ValueId root = module_.root(id);
  return offset_of(id) + module_[id].type.bytes() ==
         *module_[root].offset + module_[root].storage_bytes();
}

// In the host's memory, on a device that has its own: the host waits for the device, then copies.
bool Storage::is_pinned(ValueId id) const {
  return !shares_host_memory(device_) && module_[module_.root(id)].space == Space::host;
}

bool Storage::host_addresses(ValueId id) const {
  return !on_disk(id) && (shares_host_memory(device_) || is_pinned(id));
}

std::span<std::byte> Storage::bytes(ValueId id) const {
  if (!host_addresses(id))
    throw internal_error("'{}' is asked for in host memory, but is on {}", module_[id].name,
                         on_disk(id) ? "disk" : device_.name());
  device_.synchronise();
  failure_.rethrow();
  return range(id);
}

void Storage::write(ValueId id, int64_t offset, std::span<const std::byte> from) const {
  require_inside(id, offset, from.size());
  if (on_disk(id)) {
    const bool ends = offset + static_cast<int64_t>(from.size()) == module_[id].type.bytes();
    device_.synchronise();
    disk_->write(offset_of(id) + offset, from, ends && ends_its_storage(id));
  } else if (is_pinned(id)) {
    std::memcpy(bytes(id).data() + offset, from.data(), from.size());
  } else {
    device_.upload(address(id) + offset, from);
  }
}

void Storage::read(ValueId id, int64_t offset, std::span<std::byte> to) const {
  require_inside(id, offset, to.size());
  if (on_disk(id)) {
    device_.synchronise();
    disk_->read(offset_of(id) + offset, to);
  } else if (is_pinned(id)) {
    std::memcpy(to.data(), bytes(id).data() + offset, to.size());
  } else {
    device_.download(to, address(id) + offset);
  }
  failure_.rethrow();
}

std::unique_ptr<Reading> Storage::read_later(std::span<const ValueId> ids) const {
  std::vector<Device::Piece> pieces;
  for (ValueId id : ids) pieces.push_back(range(id));
  return device_.read_later(pieces);
}

void Storage::read_on_lane(ValueId id, int64_t offset, std::span<std::byte> to,
                           int32_t lane) const {
  require_inside(id, offset, to.size());
  if (on_disk(id)) {
    disk_->read(offset_of(id) + offset, to);
  } else {
    device_.copy(to, address(id) + offset, lane);
  }
}

void Storage::fill(ValueId id, uint8_t value) const {
  if (on_disk(id)) {
    device_.synchronise();
    return disk_->fill(offset_of(id), module_[id].storage_bytes(), value);
  }
  if (is_pinned(id)) {
    device_.synchronise();
    fill_bytes(storage_range(id), value);
  } else {
    device_.fill(storage_range(id), value);
  }
}

void Storage::require_size(ValueId id, size_t bytes) const {
  if (bytes == static_cast<size_t>(module_[id].type.bytes())) return;
  throw internal_error("{} bytes for '{}', which has {}", bytes, module_[id].name,
                       module_[id].type.bytes());
}

void Storage::require_inside(ValueId id, int64_t offset, size_t bytes) const {
  const int64_t all = module_[id].type.bytes();
  if (offset >= 0 && offset <= all && std::cmp_less_equal(bytes, all - offset)) return;
  throw internal_error("{} bytes from byte {} on for '{}', which has {}", bytes, offset,
                       module_[id].name, all);
}

}  // namespace snug
