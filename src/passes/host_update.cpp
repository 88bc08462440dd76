#include "passes/host_update.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "passes/recipe.h"

namespace snug {
namespace {

bool has_master(const Recipe& r) { return r.master && r.precision != Dtype::f32; }
bool has_state(const Recipe& r) { return r.optimizer != OptimizerKind::sgd || r.momentum > 0; }

// What an update of this layer keeps that is not in host memory; none where all of it is.
std::optional<OffloadItem> not_on_host(const Recipe& r, int32_t layer) {
  const auto is_away = [&](OffloadItem item) {
    return r.offload.home_of(item, layer) != Space::host;
  };
  if (has_state(r) && is_away(OffloadItem::optimizer)) return OffloadItem::optimizer;
  if (has_master(r) && is_away(OffloadItem::master)) return OffloadItem::master;
  return {};
}

std::string items(const Recipe& r, const std::string& layers) {
  const auto item = [&](OffloadItem i) {
    return std::string(name_of(i)) + (layers.empty() ? "" : "@" + layers);
  };
  if (!has_state(r)) return item(OffloadItem::master);
  return item(OffloadItem::optimizer) + (has_master(r) ? "," + item(OffloadItem::master) : "");
}

}  // namespace

HostUpdate parse_host_update(std::string_view text) {
  if (text == "none") return {};
  if (text == "all") return {.on = true};
  return {.on = true, .layers = read_layer_ranges(text, [&](std::string_view why) {
                        return usage_error("--host-update '{}': {}", text, why)
                            .hint("none, all, or layers like 0-11+15");
                      })};
}

std::string text(const HostUpdate& update) {
  if (!update.on) return "none";
  return update.layers.empty() ? "all" : text(update.layers);
}

bool keeps_all_on_host(const Recipe& r) {
  const bool some_elsewhere = std::ranges::any_of(r.offload.rules, [](const Offload::Rule& rule) {
    return rule.place != Space::host &&
           (rule.item == OffloadItem::optimizer || rule.item == OffloadItem::master);
  });
  return (has_state(r) || has_master(r)) && !some_elsewhere && !not_on_host(r, kNoLayer);
}

void require_host_update(const Recipe& r, int64_t layers) {
  const HostUpdate& update = r.host_update;
  if (!update.on) return;
  if (!has_state(r) && !has_master(r)) {
    throw usage_error(
        "--host-update {}: sgd without momentum or masters keeps nothing that could be in host "
        "memory",
        text(update))
        .hint("leave it out, or give --momentum");
  }
  if (!update.layers.empty() && update.layers.back().last >= layers) {
    throw usage_error("--host-update {}: layer {}, but the model has {}", text(update),
                      update.layers.back().last, layers)
        .hint("layers are counted from 0");
  }
  bool any = false;
  for (int32_t layer = kNoLayer; layer < layers; ++layer) {
    if (!update.covers(layer)) continue;
    const std::optional<OffloadItem> missing = not_on_host(r, layer);
    any = any || !missing;
    if (!missing || update.layers.empty()) continue;
    throw usage_error("--host-update {}: '{}' of layer {} is on {}, not in host memory",
                      text(update), name_of(*missing), layer,
                      r.offload.home_of(*missing, layer) == Space::disk ? "disk" : "the device")
        .hint(fmt::format("--offload {} moves it there", items(r, text(update.layers))));
  }
  if (any) return;
  throw usage_error("--host-update all: no layer has all of its optimizer's state in host memory")
      .hint(fmt::format("--offload {} moves it there", items(r, "")));
}

}  // namespace snug
