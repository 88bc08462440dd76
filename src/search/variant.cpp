#include "search/variant.h"

#include <algorithm>

namespace snug {
namespace {

const BuildOptions kPlain;

// Keeps of the forward pass what its layers depend on.
BuildOptions without_loss(BuildOptions build) {
  build.chunked_loss = kPlain.chunked_loss;
  build.loss_chunk = kPlain.loss_chunk;
  return build;
}

void add_update(Recipe& key, const Recipe& r) {
  key.master = r.master;
  key.optimizer = r.optimizer;
  key.state_dtype = r.state_dtype;
}

Recipe types_of(const Recipe& r) {
  Recipe key{.sharding = r.sharding,
             .sums_apart = r.sums_apart,
             .offload = r.offload,
             .fused_recompute = r.fused_recompute,
             .adapters = r.adapters,
             .base = r.base,
             .precision = r.precision,
             .grad_dtype = r.grad_dtype,
             .host_update = r.host_update,
             .backend = r.backend};
  if (r.sharding.on()) add_update(key, r);  // whose grain the shards have
  return key;
}

// Where backward updates, layers do the update's work.
Recipe layer_recipe(const Recipe& r) {
  Recipe key = types_of(r);
  key.compress = r.compress;
  key.update_in_backward = r.update_in_backward;
  if (r.update_in_backward) {
    key.accum = r.accum;
    add_update(key, r);
  }
  return key;
}

// In place of what is said of the same option, or as one more change.
void set(std::vector<Change>& changes, const Change& change) {
  const auto said = std::ranges::find_if(
      changes, [&](const Change& other) { return other.sets(change.settings().front().option); });
  if (said != changes.end())
    *said += change;
  else
    changes.push_back(change);
}

}  // namespace

Variant with_homes(Variant variant, const Offload& offload) {
  if (offload.rules != variant.settings.recipe.offload.rules)
    set(variant.changes, {{"offload", text(offload)}});
  if (offload.ahead != variant.settings.recipe.offload.ahead)
    set(variant.changes, {{"offload-ahead", int64_t{offload.ahead}}});
  variant.settings.recipe.offload = offload;
  return variant;
}

Variant with_host_update(Variant variant, const HostUpdate& update) {
  set(variant.changes, {{"host-update", text(update)}});
  variant.settings.recipe.host_update = update;
  return variant;
}

Variant brought_ahead(const Variant& variant, int32_t layers) {
  Offload offload = variant.settings.recipe.offload;
  offload.ahead = layers;
  return with_homes(variant, offload);
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
  key.recipe.accum = s.recipe.accum;
  key.recipe.micro_group = s.recipe.micro_group;
  key.recipe.fold_update = s.recipe.fold_update;
  if (s.recipe.recompute.kind == RecomputePolicy::Kind::full)
    key.recipe.recompute = s.recipe.recompute;
  if (s.recipe.fold_update) add_update(key.recipe, s.recipe);
  if (s.recipe.loss_scale.on()) key.recipe.loss_scale.dynamic = true;
  return key;
}

Settings update_key(const Settings& s) {
  Settings key{.recipe = types_of(s.recipe), .math = s.math};
  add_update(key.recipe, s.recipe);
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
