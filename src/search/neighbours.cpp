#include "search/neighbours.h"

#include <algorithm>
#include <utility>

#include "search/uniform_policies.h"

namespace snug {
namespace {

// With all of the item on the host, or on the device.
Offload with_item(Offload offload, OffloadItem item, bool moved) {
  std::erase_if(offload.rules, [&](const Offload::Rule& rule) { return rule.item == item; });
  if (moved) offload.rules.push_back({.item = item});
  std::ranges::stable_sort(offload.rules, {}, &Offload::Rule::item);
  return offload;
}

bool moves_in_part(const Offload& offload, OffloadItem item) {
  return std::ranges::any_of(offload.rules, [&](const Offload::Rule& rule) {
    return rule.item == item && !rule.layers.empty();
  });
}

// Where no state moves updates are not folded, and the other way round (recipe/resolve): that is a
// variant of its own, and no neighbour.
bool moves_state(const Offload& offload) {
  return offload.moves(OffloadItem::optimizer) || offload.moves(OffloadItem::master);
}

// As recipe/resolve refuses: parameters leave the device in shards alone, and a stage's activations stay.
bool may_move(OffloadItem item, const Recipe& r) {
  if (item == OffloadItem::activations) return r.mesh.pp == 1;
  return item != OffloadItem::params || !r.sharding.on() || r.sharding.level == 3;
}

// What leaves the host with nothing to update has it update nothing.
Variant settled(Variant variant) {
  const Recipe& now = variant.settings.recipe;
  if (now.host_update.on && !now.offload.moves(OffloadItem::optimizer))
    variant = with_host_update(std::move(variant), {});
  return variant;
}

std::vector<Variant> with_other_places(const Variant& now) {
  std::vector<Variant> all;
  const Offload& offload = now.settings.recipe.offload;
  const auto add = [&](OffloadItem item, bool moved) {
    const Offload other = with_item(offload, item, moved);
    if (!other.none() && moves_state(other) == moves_state(offload))
      all.push_back(settled(with_offload(now, other)));
  };
  for (const OffloadItem item : {OffloadItem::optimizer, OffloadItem::master, OffloadItem::grads,
                                 OffloadItem::params, OffloadItem::activations}) {
    if (!may_move(item, now.settings.recipe)) continue;
    add(item, !offload.moves(item));
    if (moves_in_part(offload, item)) add(item, true);
  }
  return all;
}

std::vector<Variant> with_other_updates(const Variant& now) {
  const Recipe& recipe = now.settings.recipe;
  if (!keeps_all_on_host(recipe)) return {};
  std::vector<Variant> all{with_host_update(now, {.on = !recipe.host_update.on})};
  if (!recipe.host_update.layers.empty()) all.push_back(with_host_update(now, {.on = true}));
  return all;
}

// The uniform policies before and after this one; of one that is not uniform, nothing and everything.
std::vector<RecomputePolicy> next_to(const RecomputePolicy& policy) {
  const std::span<const UniformPolicy> all = kUniformPolicies;
  std::vector<RecomputePolicy> found;
  for (size_t i = 0; i < all.size(); ++i) {
    if (all[i].policy() != policy) continue;
    if (i > 0) found.push_back(all[i - 1].policy());
    if (i + 1 < all.size()) found.push_back(all[i + 1].policy());
    return found;
  }
  return {all.front().policy(), all.back().policy()};
}

}  // namespace

std::vector<PlanToTry> neighbours_of(const TriedPlan& tried) {
  const Variant& now = tried.variant;
  std::vector<Variant> variants;
  if (now.moves_are_open) variants = with_other_places(now);
  if (now.host_update_is_open)
    for (Variant& other : with_other_updates(now)) variants.push_back(std::move(other));
  const int32_t ahead = now.settings.recipe.offload.ahead;
  for (const int32_t other : {ahead - 1, ahead + 1})
    if (other >= least_ahead(now) && other <= most_ahead(now))
      variants.push_back(prefetched_ahead(now, other));
  std::vector<PlanToTry> all;
  for (Variant& variant : variants) all.push_back({std::move(variant), tried.policy, tried.of});
  if (now.recompute_is_open())
    for (RecomputePolicy& policy : next_to(tried.policy))
      all.push_back({now, std::move(policy), tried.of});
  return all;
}

}  // namespace snug
