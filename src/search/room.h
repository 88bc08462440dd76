// Of what lives further away, what there is room for on the device, or on the host: whole layers of
// one kind of value, the last ones, which backward begins with.
//
//   const Room room(plan.module, Space::device, free_bytes);
//   if (const auto roomier = room.with_nearer(recipe.offload, OffloadItem::grads, 0)) ...
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "ir/program.h"
#include "passes/offload.h"

namespace snug {

class Room {
 public:
  // `bytes`: free in the space, beside all that `module` has there.
  Room(const Module& module, Space space, int64_t bytes);

  // The same with as many layers of the item in this space as there is room for, less `fewer`; none
  // where not even what belongs to no layer has room, or no more of the item than there already is.
  std::optional<Offload> with_nearer(const Offload& offload, OffloadItem item, int32_t fewer) const;

 private:
  struct Elsewhere {
    int64_t outside = 0;          // bytes of no layer
    std::vector<int64_t> layers;  // by layer
  };
  std::array<Elsewhere, kOffloadItems> items_;
  Space space_;
  int64_t bytes_;
};

}  // namespace snug
