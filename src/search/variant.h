// One way to run a step, with everything settled but what is recomputed: what the search compares.
#pragma once

#include <vector>

#include "cost/cost_model.h"
#include "search/stack.h"
#include "techniques/techniques.h"

namespace snug {

struct Variant {
  std::vector<Change> changes = {};  // to what was asked for, by dimension; the defaults left out
  Effect effect = Effect::exact;
  std::vector<int> picks = {};  // the alternative that it takes, by dimension
  std::vector<int> plain =
      {};  // those of the variant that it is no faster than, where there is one
  bool moves_are_open = false;       // what is offloaded
  bool ahead_is_open = false;        // the prefetch distance, in layers
  bool host_update_is_open = false;  // whether the host's cores update what is in its memory
  Stack stack;
  Settings settings;  // recompute: automatic is open, all else is pinned
  CostModel cost_model;

  Change change() const {
    Change all;
    for (const Change& c : changes) all += c;
    return all;
  }
  bool recompute_is_open() const {
    return settings.recipe.recompute.kind == RecomputePolicy::Kind::automatic;
  }
  // Layers share the memory of what they keep, or keep it in another space: their costs do not add
  // up on the device, and the search tries the policies that treat all layers alike.
  bool keeps_uniformly() const {
    return settings.recipe.micro_group > 1 ||
           settings.recipe.offload.moves(OffloadItem::activations);
  }
};

// The same with this offload; its change says so.
Variant with_offload(Variant variant, const Offload& offload);
// The same with these updates on the host's cores.
Variant with_host_update(Variant variant, const HostUpdate& update);
// The same with this prefetch distance.
Variant prefetched_ahead(const Variant& variant, int32_t layers);
// The least and the largest prefetch distance that it may have, in layers.
int32_t least_ahead(const Variant& variant);
int32_t most_ahead(const Variant& variant);

// Parts of a variant are shared by all variants that agree in what the part depends on: these are
// the settings with everything else at its default.
Settings layer_key(const Settings& settings);      // what a layer keeps and costs
Settings policy_key(const Settings& settings);     // the same, and the ends of the model
Settings body_key(const Settings& settings);       // all programs but the update
Settings update_key(const Settings& settings);     // the update
Settings parameter_key(const Settings& settings);  // parameters and gradients
// Variants whose layers do the same work on the same values at the same rates: whatever one of them
// recomputes, another can, too.
Settings work_key(const Settings& settings);

}  // namespace snug
