// Which parameters are updated on the host's cores, next to their state: what `--host-update` says,
// as data for the pass.
//
//   const HostUpdate some{.on = true, .layers = {{0, 11}, {15, 15}}};
//   some.covers(/*layer=*/3);   // true
//   text(some);                 // "0-11+15"
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "settings/layer_range.h"

namespace snug {

struct Recipe;

struct HostUpdate {
  bool on = false;
  std::vector<LayerRange> layers = {};  // rising, apart; none: all, and what belongs to no layer

  // Where its state is in host memory and nothing of it on disk: else the device updates it.
  bool covers(int32_t layer) const { return on && (layers.empty() || holds(layers, layer)); }
  friend bool operator==(const HostUpdate&, const HostUpdate&) = default;

 private:
  friend struct SettingReader;  // settings/parse.h
  // none | all | LAYERS like 0-11+15
  static HostUpdate parse(std::string_view text, std::string_view option);
};
std::string text(const HostUpdate& update);

// Is all that updates keep in host memory, of every layer and of what belongs to none, and nothing
// that they use on disk? Then all of them can be made there.
bool keeps_all_on_host(const Recipe& recipe);
// Throws a usage error where the recipe asks for host updates of state that is not in host memory,
// from a gradient or to a parameter on disk, or of a layer that is not there.
void require_host_update(const Recipe& recipe, int64_t layers);

}  // namespace snug
