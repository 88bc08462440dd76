// Of what lives elsewhere, what there is room for on the device: whole layers of one kind of value,
// the last ones, which backward begins with.
//
//   const Room room(plan.module, free_bytes);
//   if (const auto roomier = room.with_at_home(recipe.offload, OffloadItem::grads)) ...
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
  // `bytes`: free on the device, beside all that `module` has there.
  Room(const Module& module, int64_t bytes);

  // The same with as many layers of the item at home as there is room for, less `fewer`; none where
  // not even what belongs to no layer has room, or not all of the item is elsewhere.
  std::optional<Offload> with_at_home(const Offload& offload, OffloadItem item,
                                      int32_t fewer) const;

 private:
  struct Elsewhere {
    int64_t outside = 0;          // bytes of no layer
    std::vector<int64_t> layers;  // by layer
  };
  std::array<Elsewhere, kOffloadItems> items_;
  int64_t bytes_;
};

}  // namespace snug
