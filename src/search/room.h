// What fits on the device, or on the host, of what is offloaded: whole layers of one kind of value,
// the last ones, which backward begins with.
//
//   const Room room(plan.module);
//   if (const auto other = room.with_nearer(offload, OffloadItem::grads, Space::device, free)) ...
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/space_bytes.h"
#include "techniques/offload/settings.h"

namespace snug {

class Room {
 public:
  Room() = default;
  // Sizes are those of a module with all of it.
  explicit Room(const Module& module);
  void leave_out(OffloadItem item);

  // In all layers, and outside them.
  int64_t bytes_of(OffloadItem item) const;
  // By how much more or less lives in each space than where nothing moves; activations are left out.
  SpaceBytes moved_by(const Offload& offload) const;

  // The same with as much of the item in this space as so many bytes have room for: what belongs to no
  // layer, then layers, less `fewer`. None where that is no more than there already is; on the device
  // also where what belongs to no layer has no room.
  std::optional<Offload> with_nearer(const Offload& offload, OffloadItem item, Space space,
                                     int64_t bytes, int32_t fewer = 0) const;

 private:
  struct Sizes {
    int64_t outside = 0;          // bytes of no layer
    std::vector<int64_t> layers;  // by layer
  };
  std::array<Sizes, kOffloadItems> items_;
};

}  // namespace snug
