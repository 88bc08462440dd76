#include "search/variant.h"

#include <algorithm>

#include "settings/recipe_fields.h"

namespace snug {
namespace {

const BuildOptions kPlain;

// Keeps of the forward pass what its layers depend on.
BuildOptions without_loss(BuildOptions build) {
  build.chunked_loss = kPlain.chunked_loss;
  build.loss_chunk = kPlain.loss_chunk;
  return build;
}

Recipe types_of(const Recipe& r) {
  Recipe key;
  copy_fields(r, key, {Use::types, Use::places});
  if (r.sharding.on()) copy_fields(r, key, {Use::update});  // whose grain the shards have
  return key;
}

// Where backward updates, layers do the update's work.
Recipe layer_recipe(const Recipe& r) {
  Recipe key = types_of(r);
  copy_fields(r, key, {Use::layers});
  if (r.update_in_backward) copy_fields(r, key, {Use::micro, Use::update});
  return key;
}

// In place of what is said of the same option, or as one more change.
void set(std::vector<Change>& changes, const Change& change) {
  const Option& option = *change.settings().front().option;
  const auto said =
      std::ranges::find_if(changes, [&](const Change& other) { return other.sets(option); });
  if (said != changes.end())
    *said += change;
  else
    changes.push_back(change);
}

}  // namespace

Variant with_offload(Variant variant, const Offload& offload) {
  if (offload.rules != variant.settings.recipe.offload.rules)
    set(variant.changes, {{&Options::offload, Offload{.rules = offload.rules}}});
  if (offload.ahead != variant.settings.recipe.offload.ahead)
    set(variant.changes, {{&Options::offload_ahead, int64_t{offload.ahead}}});
  variant.settings.recipe.offload = offload;
  return variant;
}

Variant with_host_update(Variant variant, const HostUpdate& update) {
  set(variant.changes, {{&Options::host_update, update}});
  variant.settings.recipe.host_update = update;
  return variant;
}

Variant prefetched_ahead(const Variant& variant, int32_t layers) {
  Offload offload = variant.settings.recipe.offload;
  offload.ahead = layers;
  return with_offload(variant, offload);
}

int32_t most_ahead(const Variant& variant) {
  constexpr int32_t kMostAhead = 4;  // with so many a single run updates weights first, too
  return variant.ahead_is_open ? kMostAhead : variant.settings.recipe.offload.ahead;
}
int32_t least_ahead(const Variant& variant) {
  return variant.ahead_is_open ? 1 : variant.settings.recipe.offload.ahead;
}

Settings layer_key(const Settings& s) {
  Settings key{without_loss(s.build), layer_recipe(s.recipe), s.math};
  if (s.recipe.update_in_backward) return key;
  key.recipe.offload = {};
  key.recipe.host_update = {};
  return key;
}

Settings policy_key(const Settings& s) { return {s.build, layer_recipe(s.recipe), s.math}; }

Settings body_key(const Settings& s) {
  Settings key = policy_key(s);
  copy_fields(s.recipe, key.recipe, {Use::micro, Use::order});
  if (s.recipe.recompute.kind == RecomputePolicy::Kind::full)
    key.recipe.recompute = s.recipe.recompute;
  if (s.recipe.fold_update) copy_fields(s.recipe, key.recipe, {Use::update});
  if (s.recipe.loss_scale.on()) key.recipe.loss_scale.dynamic = true;
  return key;
}

Settings update_key(const Settings& s) {
  Settings key{.recipe = types_of(s.recipe), .math = s.math};
  copy_fields(s.recipe, key.recipe, {Use::update});
  std::erase_if(key.recipe.offload.rules,
                [](const Offload::Rule& rule) { return rule.item == OffloadItem::activations; });
  return key;
}

Settings parameter_key(const Settings& s) {
  Settings key{.recipe = types_of(s.recipe)};
  key.recipe.offload = {};
  key.recipe.host_update = {};
  return key;
}

Settings work_key(const Settings& s) {
  Settings key{.recipe = types_of(s.recipe), .math = s.math};
  key.recipe.accum = s.recipe.accum;
  key.recipe.compress = s.recipe.compress;
  return key;
}

}  // namespace snug
