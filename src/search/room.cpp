#include "search/room.h"

#include <algorithm>

#include "base/units.h"
#include "placement/placement.h"
#include "placement/residency.h"

namespace snug {

Room::Room(const Module& module, int64_t bytes) : bytes_(bytes) {
  for (Elsewhere& item : items_) item.layers.resize(module.layers.size());
  for (const Value& value : module.values) {
    const auto item = offload_item(value.category);
    if (!item || value.space == Space::device || !resides_shared(value, value.space)) continue;
    Elsewhere& there = items_[static_cast<size_t>(*item)];
    const int64_t size = round_up(value.storage_bytes(), alignment_of(Space::device));
    (value.layer == kNoLayer ? there.outside : there.layers[static_cast<size_t>(value.layer)]) +=
        size;
  }
}

std::optional<Offload> Room::with_at_home(const Offload& offload, OffloadItem item,
                                          int32_t fewer) const {
  const auto rule = std::ranges::find(offload.rules, item, &Offload::Rule::item);
  if (rule == offload.rules.end() || !rule->layers.empty()) return std::nullopt;
  const Elsewhere& there = items_[static_cast<size_t>(item)];
  int64_t left = bytes_ - there.outside;
  if (left < 0) return std::nullopt;
  auto away = static_cast<int32_t>(there.layers.size());  // so many layers stay elsewhere
  while (away > 0 && left >= there.layers[static_cast<size_t>(away - 1)])
    left -= there.layers[static_cast<size_t>(--away)];
  away = std::min(away + fewer, static_cast<int32_t>(there.layers.size()));
  Offload roomier = offload;
  auto& changed = roomier.rules[static_cast<size_t>(rule - offload.rules.begin())];
  changed.layers = {{.first = 0, .last = away - 1}};
  if (away == 0) roomier.rules.erase(roomier.rules.begin() + (rule - offload.rules.begin()));
  if (roomier.none()) return std::nullopt;
  return roomier;
}

}  // namespace snug
