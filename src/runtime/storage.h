// What an executor holds: an arena for each space that the plan uses, of exactly the plan's bytes,
// and where in them each value is. It knows no programs.
//
//   Storage storage(module, device, "/nvme", failure);
//   storage.write(weight, 0, bytes);   // in the order of the device's work
//   storage.range(weight);             // its bytes, where kernels address them
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "hal/device.h"
#include "hal/disk_file.h"
#include "ir/program.h"
#include "runtime/host_failure.h"

namespace snug {

class Storage {
 public:
  // `offload_dir` is where the file is made that holds what lives on disk; what has failed on the host
  // is thrown by the functions that wait for the device. Both outlive this, as do module and device.
  Storage(const Module& module, Device& device, std::string_view offload_dir,
          const HostFailure& failure);

  const Module& module() const { return module_; }
  Device& device() const { return device_; }
  DiskFile* disk() const { return disk_.get(); }  // nullptr: nothing lives on disk
  Memory& device_arena() const { return *arenas_[static_cast<size_t>(Space::device)]; }
  std::span<std::byte> device_bytes() const {
    return {device_arena().data(), static_cast<size_t>(device_arena().bytes())};
  }
  // Of transient values on the device: everything above the shared ones.
  std::span<std::byte> transient_bytes() const { return transient_; }

  int64_t planned_bytes(Space space) const;    // what the plan says
  int64_t allocated_bytes(Space space) const;  // what was asked of the device
  int64_t measured_bytes(Space space) const;   // the highest byte written so far, plus one

  bool on_disk(ValueId id) const { return module_[module_.root(id)].space == Space::disk; }
  int64_t offset_of(ValueId id) const;  // in the arena or file of its space
  std::byte* address(ValueId id) const;
  std::span<std::byte> range(ValueId id) const;
  std::span<std::byte> storage_range(ValueId id) const;  // with padding
  // Is its last byte the last one that its storage uses?
  bool ends_its_storage(ValueId id) const;
  // Whether the host can work on the value's own bytes: everywhere where kernels and host share
  // memory, and in the host's memory on a device that has its own; never on disk.
  bool host_addresses(ValueId id) const;

  // Those bytes, when the device is done with what it was given.
  std::span<std::byte> bytes(ValueId id) const;
  void write(ValueId id, int64_t offset, std::span<const std::byte> from) const;
  void read(ValueId id, int64_t offset, std::span<std::byte> to) const;
  std::unique_ptr<Reading> read_later(std::span<const ValueId> ids) const;
  // From the device when that lane comes by, and from disk before this returns: waits for no lane.
  void read_on_lane(ValueId id, int64_t offset, std::span<std::byte> to, int32_t lane) const;
  void fill(ValueId id, uint8_t value) const;  // padding too

  void require_size(ValueId id, size_t bytes) const;

 private:
  void require_inside(ValueId id, int64_t offset, size_t bytes) const;
  bool is_pinned(ValueId id) const;

  const Module& module_;
  Device& device_;
  const HostFailure& failure_;
  std::unique_ptr<Memory> arenas_[kSpaces];  // of device and host
  std::unique_ptr<DiskFile> disk_;
  std::span<std::byte> transient_;
};

}  // namespace snug
