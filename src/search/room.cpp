#include "search/room.h"

#include <algorithm>
#include <numeric>

#include "base/units.h"
#include "placement/placement.h"
#include "placement/residency.h"

namespace snug {

Room::Room(const Module& module) {
  for (Sizes& item : items_) item.layers.resize(module.layers.size());
  for (const Value& value : module.values) {
    const auto item = offload_item(value.category);
    if (!item || !resides_shared(value, value.space)) continue;
    Sizes& sizes = items_[static_cast<size_t>(*item)];
    const int64_t bytes = round_up(value.storage_bytes(), alignment_of(Space::host));
    (value.layer == kNoLayer ? sizes.outside : sizes.layers[static_cast<size_t>(value.layer)]) +=
        bytes;
  }
}

void Room::leave_out(OffloadItem item) { items_[static_cast<size_t>(item)] = {}; }

int64_t Room::bytes_of(OffloadItem item) const {
  const Sizes& sizes = items_[static_cast<size_t>(item)];
  return std::accumulate(sizes.layers.begin(), sizes.layers.end(), sizes.outside);
}

SpaceBytes Room::moved_by(const Offload& offload) const {
  SpaceBytes moved;
  for (size_t i = 0; i < items_.size(); ++i) {
    const auto move = [&](int32_t layer, int64_t bytes) {
      moved[Space::device] -= bytes;
      moved[offload.home_of(static_cast<OffloadItem>(i), layer)] += bytes;
    };
    move(kNoLayer, items_[i].outside);
    for (size_t l = 0; l < items_[i].layers.size(); ++l)
      move(static_cast<int32_t>(l), items_[i].layers[l]);
  }
  return moved;
}

std::optional<Offload> Room::with_nearer(const Offload& offload, OffloadItem item, Space space,
                                         int64_t bytes, int32_t fewer) const {
  const auto is_farther = [&](const Offload::Rule& r) { return r.item == item && r.place > space; };
  const auto rule = std::ranges::find_if(offload.rules, is_farther);
  if (std::ranges::count_if(offload.rules, is_farther) != 1) return std::nullopt;
  const Sizes& sizes = items_[static_cast<size_t>(item)];
  if (sizes.outside == 0 && std::ranges::all_of(sizes.layers, [](int64_t s) { return s == 0; }))
    return std::nullopt;
  const auto farther = [&](int32_t layer) { return offload.home_of(item, layer) > space; };
  int64_t left = bytes - (farther(kNoLayer) ? sizes.outside : 0);
  if (left < 0) return std::nullopt;
  const auto layers = static_cast<int32_t>(sizes.layers.size());
  int32_t away = layers;  // so many stay where they are
  for (; away > 0; --away) {
    const int64_t more = farther(away - 1) ? sizes.layers[static_cast<size_t>(away - 1)] : 0;
    if (left < more) break;
    left -= more;
  }
  Offload::Rule rest = *rule;
  rest.layers = {{.first = 0, .last = std::min(away + fewer, layers) - 1}};
  Offload roomier = offload;
  auto at = roomier.rules.erase(roomier.rules.begin() + (rule - offload.rules.begin()));
  if (rest.layers.front().last >= 0) at = roomier.rules.insert(at, rest);
  if (space != Space::device && rule->layers.empty())
    roomier.rules.insert(at, {.item = item, .place = space});
  if (roomier == offload || roomier.none()) return std::nullopt;
  return roomier;
}

}  // namespace snug
