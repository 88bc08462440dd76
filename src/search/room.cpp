#include "search/room.h"

#include <algorithm>
#include <numeric>

#include "base/units.h"
#include "placement/placement.h"
#include "placement/space_values.h"

namespace snug {
namespace {

// The spaces in which one item is.
struct ItemSpaces {
  Space outside;  // what belongs to no layer
  std::vector<Space> layers;
};

// The same as rules: of what belongs to no layer and of all layers, and of layers in other spaces.
std::vector<Offload::Rule> rules_of(OffloadItem item, const ItemSpaces& spaces) {
  std::vector<Offload::Rule> rules;
  if (spaces.outside != Space::device) rules.push_back({.item = item, .place = spaces.outside});
  for (const Space place : {Space::host, Space::disk}) {
    if (place == spaces.outside) continue;
    std::vector<LayerRange> there;
    for (size_t l = 0; l < spaces.layers.size(); ++l) {
      const auto layer = static_cast<int32_t>(l);
      if (spaces.layers[l] == place) there.push_back({.first = layer, .last = layer});
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
      moved[offload.space_of(static_cast<OffloadItem>(i), layer)] += bytes;
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
  ItemSpaces spaces{.outside = offload.space_of(item, kNoLayer), .layers = {}};
  for (int32_t l = 0; l < layers; ++l) spaces.layers.push_back(offload.space_of(item, l));
  if (bytes_of(item) == 0) return std::nullopt;
  if (spaces.outside > space) {
    const bool fits = sizes.outside <= bytes;
    // No rule offloads what belongs to no layer and leaves layers on the device.
    if (!fits && space == Space::device) return std::nullopt;
    if (fits) {
      spaces.outside = space;
      bytes -= sizes.outside;
    }
  }
  int32_t unmoved = layers;
  for (; unmoved > 0; --unmoved) {
    const auto last = static_cast<size_t>(unmoved - 1);
    const int64_t more = spaces.layers[last] > space ? sizes.layers[last] : 0;
    if (bytes < more) break;
    bytes -= more;
  }
  for (int32_t l = std::min(unmoved + fewer, layers); l < layers; ++l) {
    Space& now = spaces.layers[static_cast<size_t>(l)];
    now = std::min(now, space);
  }
  Offload roomier = offload;
  const auto at =
      std::ranges::find(roomier.rules, item, &Offload::Rule::item) - roomier.rules.begin();
  std::erase_if(roomier.rules, [&](const Offload::Rule& rule) { return rule.item == item; });
  const std::vector<Offload::Rule> rules = rules_of(item, spaces);
  roomier.rules.insert(roomier.rules.begin() + at, rules.begin(), rules.end());
  if (roomier == offload || roomier.none()) return std::nullopt;
  return roomier;
}

}  // namespace snug
