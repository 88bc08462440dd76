#include "search/room.h"

#include <algorithm>

#include "base/units.h"
#include "placement/placement.h"
#include "placement/residency.h"

namespace snug {

Room::Room(const Module& module, Space space, int64_t bytes) : space_(space), bytes_(bytes) {
  for (Elsewhere& item : items_) item.layers.resize(module.layers.size());
  for (const Value& value : module.values) {
    const auto item = offload_item(value.category);
    if (!item || value.space <= space || !resides_shared(value, value.space)) continue;
    Elsewhere& there = items_[static_cast<size_t>(*item)];
    const int64_t size = round_up(value.storage_bytes(), alignment_of(space));
    (value.layer == kNoLayer ? there.outside : there.layers[static_cast<size_t>(value.layer)]) +=
        size;
  }
}

std::optional<Offload> Room::with_nearer(const Offload& offload, OffloadItem item,
                                         int32_t fewer) const {
  const auto is_farther = [&](const Offload::Rule& r) {
    return r.item == item && r.place > space_;
  };
  const auto rule = std::ranges::find_if(offload.rules, is_farther);
  if (std::ranges::count_if(offload.rules, is_farther) != 1) return std::nullopt;
  const Elsewhere& there = items_[static_cast<size_t>(item)];
  int64_t left = bytes_ - there.outside;
  if (left < 0) return std::nullopt;
  auto away = static_cast<int32_t>(there.layers.size());  // so many layers stay where they are
  while (away > 0 && left >= there.layers[static_cast<size_t>(away - 1)])
    left -= there.layers[static_cast<size_t>(--away)];
  away = std::min(away + fewer, static_cast<int32_t>(there.layers.size()));
  Offload roomier = offload;
  Offload::Rule rest = *rule;
  rest.layers = {{.first = 0, .last = away - 1}};
  auto at = roomier.rules.erase(roomier.rules.begin() + (rule - offload.rules.begin()));
  if (away > 0) at = roomier.rules.insert(at, rest);
  if (space_ != Space::device && rule->layers.empty())
    roomier.rules.insert(at, {.item = item, .place = space_});
  if (roomier == offload) return std::nullopt;
  if (roomier.none()) return std::nullopt;
  return roomier;
}

}  // namespace snug
