#include "search/room.h"

#include <algorithm>
#include <numeric>

#include "base/units.h"
#include "placement/placement.h"
#include "placement/residency.h"

namespace snug {
namespace {

// Where one item lives.
struct Homes {
  Space outside;  // what belongs to no layer
  std::vector<Space> layers;
};

// The same as rules: of what belongs to no layer and of all layers, and of those that live elsewhere.
std::vector<Offload::Rule> rules_of(OffloadItem item, const Homes& homes) {
  std::vector<Offload::Rule> rules;
  if (homes.outside != Space::device) rules.push_back({.item = item, .place = homes.outside});
  for (const Space place : {Space::host, Space::disk}) {
    if (place == homes.outside) continue;
    std::vector<LayerRange> there;
    for (size_t l = 0; l < homes.layers.size(); ++l) {
      const auto layer = static_cast<int32_t>(l);
      if (homes.layers[l] == place) there.push_back({.first = layer, .last = layer});
    }
    if (!there.empty())
      rules.push_back({.item = item, .layers = tidy(std::move(there)), .place = place});
  }
  return rules;
}

}  // namespace

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
  const Sizes& sizes = items_[static_cast<size_t>(item)];
  const auto layers = static_cast<int32_t>(sizes.layers.size());
  Homes homes{.outside = offload.home_of(item, kNoLayer), .layers = {}};
  for (int32_t l = 0; l < layers; ++l) homes.layers.push_back(offload.home_of(item, l));
  if (bytes_of(item) == 0) return std::nullopt;
  if (homes.outside > space) {
    const bool fits = sizes.outside <= bytes;
    // No rule says that layers are at home and what belongs to none is not.
    if (!fits && space == Space::device) return std::nullopt;
    if (fits) {
      homes.outside = space;
      bytes -= sizes.outside;
    }
  }
  int32_t away = layers;  // so many stay where they are
  for (; away > 0; --away) {
    const auto last = static_cast<size_t>(away - 1);
    const int64_t more = homes.layers[last] > space ? sizes.layers[last] : 0;
    if (bytes < more) break;
    bytes -= more;
  }
  for (int32_t l = std::min(away + fewer, layers); l < layers; ++l) {
    Space& home = homes.layers[static_cast<size_t>(l)];
    home = std::min(home, space);
  }
  Offload roomier = offload;
  const auto at =
      std::ranges::find(roomier.rules, item, &Offload::Rule::item) - roomier.rules.begin();
  std::erase_if(roomier.rules, [&](const Offload::Rule& rule) { return rule.item == item; });
  const std::vector<Offload::Rule> rules = rules_of(item, homes);
  roomier.rules.insert(roomier.rules.begin() + at, rules.begin(), rules.end());
  if (roomier == offload || roomier.none()) return std::nullopt;
  return roomier;
}

}  // namespace snug
