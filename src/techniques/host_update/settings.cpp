#include "techniques/host_update/settings.h"

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "base/text.h"
#include "settings/recipe.h"

#include "settings/option_rows.h"

namespace snug {
namespace {

bool has_master(const Recipe& r) { return r.master && r.precision != Dtype::f32; }
bool has_state(const Recipe& r) { return r.optimizer != OptimizerKind::sgd || r.momentum > 0; }

// What keeps the host from updating this layer: state that is not in host memory, or anything on
// disk. None where nothing does.
std::optional<OffloadItem> not_on_host(const Recipe& r, int32_t layer) {
  const auto space = [&](OffloadItem item) { return r.offload.space_of(item, layer); };
  if (has_state(r) && space(OffloadItem::optimizer) != Space::host) return OffloadItem::optimizer;
  if (has_master(r) && space(OffloadItem::master) != Space::host) return OffloadItem::master;
  for (const OffloadItem item : {OffloadItem::grads, OffloadItem::params})
    if (space(item) == Space::disk) return item;
  return {};
}

bool some_on_disk(const Recipe& r, OffloadItem item) {
  return std::ranges::any_of(r.offload.rules, [&](const Offload::Rule& rule) {
    return rule.item == item && rule.place == Space::disk;
  });
}

// What --offload has to put into host memory.
std::string items(const Recipe& r, const std::string& layers) {
  const auto item = [&](OffloadItem i) {
    return std::string(name_of(i)) + (layers.empty() ? "" : "@" + layers);
  };
  std::vector<std::string> needed;
  if (has_state(r)) needed.push_back(item(OffloadItem::optimizer));
  if (has_master(r)) needed.push_back(item(OffloadItem::master));
  for (const OffloadItem i : {OffloadItem::grads, OffloadItem::params})
    if (some_on_disk(r, i)) needed.push_back(item(i));
  return join(needed, ",");
}

}  // namespace

HostUpdate HostUpdate::parse(std::string_view text, std::string_view option) {
  if (text == "none") return {};
  if (text == "all") return {.on = true};
  return {.on = true, .layers = read_layer_ranges(text, [&](std::string_view why) {
                        return usage_error("--{} '{}': {}", option, text, why)
                            .hint("auto, none, all, or layers like 0-11+15");
                      })};
}

std::string text(const HostUpdate& update) {
  if (!update.on) return "none";
  return update.layers.empty() ? "all" : text(update.layers);
}

bool keeps_all_on_host(const Recipe& r) {
  const bool any_on_disk =
      some_on_disk(r, OffloadItem::optimizer) || some_on_disk(r, OffloadItem::master) ||
      some_on_disk(r, OffloadItem::grads) || some_on_disk(r, OffloadItem::params);
  return (has_state(r) || has_master(r)) && !any_on_disk && !not_on_host(r, kNoLayer);
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
                      r.offload.space_of(*missing, layer) == Space::disk ? "disk" : "the device")
        .hint(fmt::format("--offload {} moves it there", items(r, text(update.layers))));
  }
  if (any) return;
  throw usage_error(
      "--host-update all: no layer has all of its optimizer's state in host memory, and no "
      "gradient "
      "or parameter on disk")
      .hint(fmt::format("--offload {} moves it there", items(r, "")));
}

std::vector<Option> host_update_options() {
  return {option_row(
      "host-update", &Options::host_update,
      "auto | none | all | LAYERS, e.g. 0-11+15: update parameters whose state is in host memory "
      "on the host's cores (auto: where a budget's search finds that faster)",
      {.on_resume = OnResume::exact, .settled = true})};
}

}  // namespace snug
