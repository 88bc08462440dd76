#include "search/meshes/mesh_costs.h"

#include <algorithm>
#include <array>

#include "base/units.h"
#include "compile/compile.h"
#include "placement/space_values.h"

namespace snug {
namespace {

constexpr int64_t kShallow = 2;

// The first ZeRO level that shares it; 0: none does.
int zero_stage_of(Category category) {
  switch (category) {
    case Category::optimizer:
    case Category::master:
      return 1;
    case Category::grads:
      return 2;
    case Category::params:
      return 3;
    default:
      return 0;
  }
}

// Of a model of so many layers.
struct Depth {
  double micro_batch = 0, step = 0;
  SpaceBytes shared;
  std::array<int64_t, 3> sharable = {};
};

Depth depth_of(Module& module, const Recipe& recipe, const CostModel& model) {
  Depth d;
  const Orders orders(module);
  const double seconds = step_cost(module, model, orders).step_seconds;
  for (Repeat& repeat : module.step) {
    if (repeat.times == 1) continue;
    ++repeat.times;
    d.micro_batch = step_cost(module, model, orders).step_seconds - seconds;
    --repeat.times;
  }
  d.step = seconds - static_cast<double>(recipe.accum) * d.micro_batch;
  for (const Value& value : module.values) {
    if (!resides_shared(value, value.space)) continue;
    const int64_t bytes = round_up(value.storage_bytes(), alignment_of(value.space));
    d.shared[value.space] += bytes;
    const int stage = zero_stage_of(value.category);
    if (stage > 0 && value.space == Space::device)
      d.sharable[static_cast<size_t>(stage - 1)] += bytes;
  }
  return d;
}

template <typename T>
ByLayer<T> between(const T& shallow, const T& deeper, int64_t layers) {
  ByLayer<T> out;
  out.layer = deeper - shallow;
  out.outside = shallow;
  for (int64_t l = 0; l < layers; ++l) out.outside = out.outside - out.layer;
  return out;
}

RankCosts rank_costs(const Model& model, const BuildOptions& build, const Recipe& recipe,
                     const CostModel& cost_model) {
  const int64_t shallow = std::max<int64_t>(1, std::min(kShallow, model.config().L - 1));
  const auto at = [&](int64_t layers) {
    return compile("mesh", model.with_layers(static_cast<int32_t>(layers)).forward(build), recipe);
  };
  Module less = at(shallow), more = at(shallow + 1);
  const Depth a = depth_of(less, recipe, cost_model), b = depth_of(more, recipe, cost_model);
  const LayerCosts costs(more, cost_model);
  const auto middle = static_cast<int32_t>((shallow + 1) / 2);
  RankCosts rank{.micro_batch = between(a.micro_batch, b.micro_batch, shallow),
                 .step = between(a.step, b.step, shallow),
                 .shared = between(a.shared, b.shared, shallow),
                 .before = costs.before(),
                 .layer = costs.of(middle, middle),
                 .after = costs.after(),
                 .other_programs = costs.other_programs()};
  for (size_t z = 0; z < rank.sharable.size(); ++z)
    rank.sharable[z] = between(a.sharable[z], b.sharable[z], shallow);
  return rank;
}

}  // namespace

// One end of the model has its table, or both have the same.
int64_t stage_bytes(const ByLayer<int64_t>& part, const MeshShape& shape) {
  const bool half = shape.stages > 1 && !shape.tied;
  return (half ? part.outside / 2 : part.outside) +
         ceil_div(shape.layers, shape.stages) * part.layer;
}

SpaceBytes arenas_of(const RankCosts& costs, const MeshShape& shape) {
  const int64_t layers = ceil_div(shape.layers, shape.stages);
  const bool whole = shape.stages == 1;
  SpaceBytes bytes;
  for (const Space space : kAllSpaces)
    bytes[space] = stage_bytes({costs.shared.outside[space], costs.shared.layer[space]}, shape);
  const int64_t kept = costs.before.kept + layers * costs.layer.kept;
  int64_t one = kept - costs.layer.kept + costs.layer.working;
  if (whole) one = std::max({one, costs.before.working, kept + costs.after.working});
  const auto others = static_cast<int64_t>((shape.kept - 1) * static_cast<double>(kept));
  bytes[Space::device] += std::max(others + one, costs.other_programs);
  return bytes;
}

namespace {

double sum(const ByLayer<double>& part, const MeshShape& shape) {
  return part.outside + static_cast<double>(shape.layers) * part.layer;
}

}  // namespace

double micro_batch_seconds_of(const RankCosts& costs, const MeshShape& shape) {
  // No stage has less than its share, and one has all of its layers.
  const double slowest =
      std::max(sum(costs.micro_batch, shape) / static_cast<double>(shape.stages),
               static_cast<double>(ceil_div(shape.layers, shape.stages)) * costs.micro_batch.layer);
  return (static_cast<double>(shape.micro_batches) + shape.waits) * slowest;
}

double seconds_of(const RankCosts& costs, const MeshShape& shape) {
  return micro_batch_seconds_of(costs, shape) +
         sum(costs.step, shape) / static_cast<double>(shape.stages);
}

const RankCosts& MeshCosts::of(const Resolved& run) {
  auto key = static_cast<const Settings&>(run);
  Recipe& recipe = key.recipe;
  // One micro-batch adds to no other; between the first and the last they are alike.
  recipe.accum = recipe.mesh.pp == 1 && recipe.accum == 1 ? 1 : 4;
  recipe.micro_group = 1;
  recipe.mesh.pp = 1;
  recipe.mesh.stage = 0;
  if (recipe.recompute.kind == RecomputePolicy::Kind::automatic) recipe.recompute = {};
  return known_.of(key, [&] { return rank_costs(run.model, key.build, recipe, run.cost_model); });
}

}  // namespace snug
