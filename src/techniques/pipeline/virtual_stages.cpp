#include "techniques/pipeline/virtual_stages.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>

#include "base/error.h"
#include "base/units.h"

namespace snug {
namespace {

// A repeat whose original is gone goes with the op that reads it first.
void place_with_readers(std::span<const Op> ops, std::vector<int32_t>& layers) {
  if (std::ranges::find(layers, kNoLayer) == layers.end()) return;
  std::map<ValueId, int32_t> reader;
  for (size_t at = layers.size(); at-- > 0;) {
    const Op& op = ops[at];
    for (const ValueId id : op.outputs)
      if (layers[at] == kNoLayer && reader.contains(id)) layers[at] = reader.at(id);
    for (const ValueId id : op.inputs) reader[id] = layers[at];
  }
}

// By op: the layer that it goes with. What is in none goes with the op that it repeats or
// differentiates; forward ops with the layer before them, the first ones with the first.
std::vector<int32_t> layers_of(const Module& module, std::span<const Op> ops) {
  const auto last = static_cast<int32_t>(module.layers.size()) - 1;
  std::unordered_map<std::string_view, int32_t> by_name;
  by_name.reserve(ops.size());
  std::vector<int32_t> layers;
  int32_t now = 0;
  const auto last_of_layer = std::ranges::find_if(ops.rbegin(), ops.rend(), [](const Op& op) {
    return op.phase == Phase::forward && op.layer != kNoLayer;
  });
  const Op* end = last_of_layer == ops.rend() ? nullptr : &*last_of_layer;
  for (const Op& op : ops) {
    if (op.layer != kNoLayer) {
      now = op.layer;
    } else if (const std::string& link = op.backward_of.empty() ? op.clone_of : op.backward_of;
               !link.empty()) {
      const auto linked = by_name.find(link);
      if (linked == by_name.end()) {
        layers.push_back(kNoLayer);
        continue;
      }
      now = linked->second;
    }
    layers.push_back(now);
    by_name.emplace(op.name, now);
    if (&op == end) now = last;
  }
  place_with_readers(ops, layers);
  return layers;
}

}  // namespace

std::vector<int32_t> balanced_parts(const std::vector<int64_t>& costs, int64_t parts) {
  const auto n = static_cast<int64_t>(costs.size());
  std::vector<int64_t> before(costs.size() + 1);
  std::partial_sum(costs.begin(), costs.end(), before.begin() + 1);
  // best[p][i]: the largest sum where the first i are cut into p + 1 parts; from: the last one's first.
  std::vector<std::vector<int64_t>> best(static_cast<size_t>(parts), before), from(best);
  for (int64_t p = 0; p < parts; ++p) {
    for (int64_t i = p + 1; i <= n; ++i) {
      const auto at = static_cast<size_t>(i);
      int64_t& least = best[static_cast<size_t>(p)][at];
      from[static_cast<size_t>(p)][at] = 0;
      if (p == 0) continue;
      least = -1;
      for (int64_t j = p; j < i; ++j) {
        const int64_t largest = std::max(best[static_cast<size_t>(p - 1)][static_cast<size_t>(j)],
                                         before[at] - before[static_cast<size_t>(j)]);
        if (least >= 0 && largest >= least) continue;
        least = largest;
        from[static_cast<size_t>(p)][at] = j;
      }
    }
  }
  std::vector<int32_t> first(static_cast<size_t>(parts));
  int64_t end = n;
  for (int64_t p = parts; p-- > 0;) {
    end = from[static_cast<size_t>(p)][static_cast<size_t>(end)];
    first[static_cast<size_t>(p)] = static_cast<int32_t>(end);
  }
  return first;
}

void require_divisible(const Mesh& mesh, int64_t layers, int64_t micro_batches) {
  if (layers < mesh.pp) {
    throw usage_error("--pp {}: the model has {}, and a stage has one at least", mesh.pp,
                      counted(layers, "layer"))
        .hint(layers > 1 ? fmt::format("give --pp {} or less", layers) : "leave --pp out");
  }
  if (layers < mesh.virtual_stages()) {
    const int64_t most = layers / mesh.pp;
    throw usage_error(
        "--pp-schedule interleaved:{} with --pp {}: the model has {} for {} virtual stages",
        mesh.chunks, mesh.pp, counted(layers, "layer"), mesh.virtual_stages())
        .hint(most > 1 ? fmt::format("give interleaved:{} or less", most)
                       : "give 1f1b or zero-bubble");
  }
  if (mesh.chunks > 1 && micro_batches % mesh.pp != 0) {
    throw usage_error("--pp-schedule interleaved:{} with --pp {}: a step has {}, no multiple of {}",
                      mesh.chunks, mesh.pp, counted(micro_batches, "micro-batch"), mesh.pp)
        .hint(fmt::format("give --accum {}", round_up(micro_batches, mesh.pp)));
  }
}

VirtualStages::VirtualStages(const Module& module, const Program& training, const Recipe& recipe)
    : module_(module) {
  const Mesh& mesh = recipe.mesh;
  require_divisible(mesh, static_cast<int64_t>(module.layers.size()), recipe.accum);
  std::vector<int64_t> costs(module.layers.size());
  const std::vector<int32_t> layer = layers_of(module, training.ops);
  for (size_t at = 0; at < layer.size(); ++at)
    costs[static_cast<size_t>(layer[at])] +=
        cost_of(module, training.ops[at], recipe.backend).flops;
  first_ = balanced_parts(costs, mesh.virtual_stages());
}

std::vector<int64_t> VirtualStages::of(std::span<const Op> ops) const {
  std::vector<int64_t> virtual_stages;
  for (const int32_t layer : layers_of(module_, ops))
    virtual_stages.push_back(std::ranges::upper_bound(first_, layer) - first_.begin() - 1);
  return virtual_stages;
}

}  // namespace snug
