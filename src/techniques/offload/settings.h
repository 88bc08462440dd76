// Which values live outside the device, and where: what `--offload` says, as data for the pass.
//
//   const Offload offload = parse_setting<Offload>("optimizer=disk,params@0-11+15", "offload");
//   offload.space_of(OffloadItem::params, /*layer=*/3);   // Space::host
//   text(offload);                                       // "optimizer=disk,params@0-11+15"
//
// What names layers counts for them before what names none: "optimizer,optimizer@0-3=disk".
#pragma once

#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/value.h"
#include "settings/layer_range.h"

namespace snug {

enum class OffloadItem : uint8_t { optimizer, master, grads, params, activations };
constexpr int kOffloadItems = 5;
std::string_view name_of(OffloadItem item);
// What a value of this category is to the option; none where it never leaves the device.
std::optional<OffloadItem> offload_item(Category category);

struct Offload {
  struct Rule {
    OffloadItem item = OffloadItem::optimizer;
    std::vector<LayerRange> layers = {};  // rising, apart; none: all, and what belongs to no layer
    Space place = Space::host;
    friend bool operator==(const Rule&, const Rule&) = default;
  };
  // By item; no two that name layers, and no two that name none, say different things of one.
  std::vector<Rule> rules = {};
  // A value is prefetched while the program is so many layers before the one that uses it.
  int32_t ahead = 1;
  // Elements that an update takes at once of a parameter that is not all on the device.
  int64_t slice = int64_t{1} << 24;

  bool none() const { return rules.empty(); }
  Space space_of(OffloadItem item, int32_t layer) const;
  bool moves(OffloadItem item) const;  // in some layer
  bool uses(Space place) const;
  friend bool operator==(const Offload&, const Offload&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  // none | ITEM[@LAYERS][=PLACE],... with ITEM optimizer, master, grads, params, activations or all,
  // LAYERS like 0-11+15, PLACE host or disk
  static Offload parse(std::string_view text, std::string_view option);
};
std::string text(const Offload& offload);
// All layers of these in host memory.
Offload on_host(std::initializer_list<OffloadItem> items);
// Throws a usage error where it names a layer that is not there.
void require_layers(const Offload& offload, int64_t layers);

}  // namespace snug
