#include "search/layer_policy_costs.h"
#include "compile/compile.h"

#include <algorithm>
#include <cmath>

namespace snug {
namespace {

// Of the things that a layer may drop, so many are chosen one by one; smaller ones are kept unless
// all is dropped. Transformer layers have seven or eight.
constexpr size_t kDroppables = 8;
// Many policies are measured at once, in the layers of one compile; so many layers in all.
constexpr int32_t kLayersAtOnce = 24;
constexpr int kLayersInAll = 600;

// Longer ones never pay: what they save on entrances they need for work.
int32_t longest_segment(int32_t layers) {
  return std::min(layers, static_cast<int32_t>(std::ceil(1.5 * std::sqrt(layers))));
}

bool beats(const Costs& a, const Costs& b) {
  const bool no_worse = a.kept <= b.kept && a.working <= b.working && a.seconds <= b.seconds;
  return no_worse && (a.kept < b.kept || a.working < b.working || a.seconds < b.seconds);
}

bool same_policy(const LayerPolicy& a, const LayerPolicy& b) {
  return a.layers == b.layers && a.keeps_all == b.keeps_all && a.drop == b.drop;
}

// Training alone: evaluation and update have no part in what is kept.
Module training_alone(const ForwardBuilder& forward, const Recipe& recipe) {
  Module module = compile("measured", forward, recipe, CompilePhase::differentiate);
  module.program(ProgramRole::evaluation).ops.clear();
  sweep_values(module);
  return module;
}

Module ended(Module module, const Recipe& recipe) {
  if (recipe.update_in_backward) {
    continue_compile(module, recipe, CompilePhase::keep);
  } else {
    continue_compile(module, recipe, CompilePhase::keep, CompilePhase::keep);
    continue_compile(module, recipe, CompilePhase::ranks, CompilePhase::ranks);
    continue_compile(module, recipe, CompilePhase::offload);
  }
  return module;
}

// What a layer may drop is a question about the values themselves, not about how they are stored.
LayerKinds kinds_of(const Module& training, Recipe recipe) {
  recipe.update_in_backward = false;
  recipe.compress = CompressKind::none;
  recipe.recompute = {};
  const Module none = ended(training, recipe);
  recipe.recompute.kind = RecomputePolicy::Kind::full;
  return layer_kinds(none, ended(training, recipe));
}

}  // namespace

LayerPolicyCosts::LayerPolicyCosts(const Variant& variant) {
  const int32_t L = variant.stack.layers;
  const int32_t depth = variant.stack.depth(std::max(kLayersAtOnce, longest_segment(L)));
  Recipe recipe = variant.settings.recipe;
  recipe.recompute = {};
  const Module training = training_alone(variant.stack.forward(depth), recipe);
  kinds_ = kinds_of(training, recipe);
  for (int32_t l = 0; l < L; ++l)
    of_layer_.push_back(kinds_.of_layer[static_cast<size_t>(layer_like(l, depth, L))]);
  const LayerCosts plain(ended(training, recipe), variant.cost_model);
  for (int32_t l = 0; l < depth; ++l) plain_seconds_.push_back(plain.of(l, l).seconds);

  const auto kinds = static_cast<int>(kinds_.kinds.size());
  for (int k = 0; k < kinds; ++k) measured_.push_back({{k}, {.keeps_all = true}});
  want_segments();
  for (int k = 0; k < kinds; ++k) want_subsets(k);
  measure(training, recipe, variant.cost_model);
  offer_the_best();
}

LayerPolicies LayerPolicyCosts::between(const Costs& before, const Costs& after) const {
  LayerPolicies layers = layers_;
  layers.before = before;
  layers.after = after;
  return layers;
}

// Segments of every useful length, once for each run of kinds that the model has.
void LayerPolicyCosts::want_segments() {
  const auto& of_layer = kinds_.of_layer;
  const auto L = static_cast<int32_t>(of_layer.size());
  for (int32_t n = 1; n <= longest_segment(static_cast<int32_t>(of_layer_.size())); ++n) {
    const size_t before = measured_.size();
    for (int32_t first = 0; first + n <= L; ++first) {
      std::vector<int> kinds(of_layer.begin() + first, of_layer.begin() + first + n);
      const auto of_this_length = measured_.begin() + static_cast<std::ptrdiff_t>(before);
      if (std::find_if(of_this_length, measured_.end(), [&](const MeasuredPolicy& policy) {
            return policy.kinds == kinds;
          }) == measured_.end())
        measured_.push_back({std::move(kinds), {.layers = n}});
    }
  }
}

// Every choice of a few of the things that a layer may drop; all of them is a segment already.
void LayerPolicyCosts::want_subsets(int kind) {
  const auto& all = kinds_.kinds[static_cast<size_t>(kind)];
  std::vector<Droppable> parts = all;
  while (parts.size() > kDroppables)
    parts.erase(std::ranges::min_element(parts, {}, &Droppable::bytes));
  for (uint32_t subset = 1; subset < (1U << parts.size()); ++subset) {
    LayerPolicy option;
    for (size_t i = 0; i < parts.size(); ++i) {
      if ((subset >> i & 1U) != 0) option.drop.push_back(parts[i].name);
    }
    if (option.drop.size() < all.size()) measured_.push_back({{kind}, std::move(option)});
  }
}

bool LayerPolicyCosts::suits(const MeasuredPolicy& policy, size_t layer,
                             const std::vector<int>& of_layer) const {
  return layer + policy.kinds.size() <= of_layer.size() &&
         std::equal(policy.kinds.begin(), policy.kinds.end(),
                    of_layer.begin() + static_cast<std::ptrdiff_t>(layer));
}

// An assignment of policies that have not been measured yet; -1 for a layer that none is left for.
std::vector<int> LayerPolicyCosts::unmeasured_assignment() const {
  std::vector<int> assignment;
  std::vector<bool> used(measured_.size());
  for (size_t layer = 0; layer < kinds_.of_layer.size();) {
    size_t w = 0;
    while (w < measured_.size() &&
           (measured_[w].measured || used[w] || !suits(measured_[w], layer, kinds_.of_layer)))
      ++w;
    const bool found = w < measured_.size();
    assignment.push_back(found ? static_cast<int>(w) : -1);
    if (found) used[w] = true;
    layer += found ? measured_[w].kinds.size() : 1;
  }
  return assignment;
}

void LayerPolicyCosts::measure(const Module& training, Recipe recipe, const CostModel& model) {
  const auto depth = static_cast<int>(plain_seconds_.size());
  for (int layers = 0; layers < kLayersInAll; layers += depth) {
    const std::vector<int> assignment = unmeasured_assignment();
    if (std::ranges::all_of(assignment, [](int w) { return w < 0; })) return;
    recipe.recompute = policy_of(assignment);
    const LayerCosts costs(ended(training, recipe), model);
    int32_t layer = 0;
    for (const int w : assignment) {
      if (w < 0) {
        ++layer;
        continue;
      }
      MeasuredPolicy& policy = measured_[static_cast<size_t>(w)];
      policy.policy.costs = costs.of(layer, layer + policy.policy.layers - 1);
      policy.measured = true;
      for (const int32_t end = layer + policy.policy.layers; layer < end; ++layer)
        policy.policy.costs.seconds -= plain_seconds_[static_cast<size_t>(layer)];
    }
  }
}

// Offers to every layer the policies that suit it and that no other policy for the same layers
// beats.
void LayerPolicyCosts::offer_the_best() {
  layers_.at.resize(of_layer_.size());
  for (size_t w = 0; w < measured_.size(); ++w) {
    const MeasuredPolicy& policy = measured_[w];
    layers_.options.push_back(policy.policy);
    const bool beaten = std::ranges::any_of(measured_, [&](const MeasuredPolicy& other) {
      return other.measured && other.kinds == policy.kinds &&
             beats(other.policy.costs, policy.policy.costs);
    });
    if (!policy.measured || beaten) continue;
    for (size_t l = 0; l < layers_.at.size(); ++l) {
      if (suits(policy, l, of_layer_)) layers_.at[l].push_back(static_cast<int>(w));
    }
  }
}

std::optional<std::vector<int>> LayerPolicyCosts::assignment_of(
    const RecomputePolicy& uniform) const {
  const auto L = static_cast<int32_t>(of_layer_.size());
  const std::vector<Segment> segments = segments_of(uniform, L);
  std::vector<int> assignment;
  for (int32_t layer = 0; layer < L;) {
    const auto segment = std::ranges::find(segments, layer, &Segment::first);
    LayerPolicy like{.keeps_all = segment == segments.end()};
    if (segment != segments.end()) like.layers = segment->last - segment->first + 1;
    if (uniform.kind == RecomputePolicy::Kind::attention) {
      for (const Droppable& part :
           kinds_.kinds[static_cast<size_t>(of_layer_[static_cast<size_t>(layer)])]) {
        if (part.selective) like.drop.push_back(part.name);
      }
      like.keeps_all = like.drop.empty();
    }
    const int policy = find(static_cast<size_t>(layer), like);
    if (policy < 0) return {};
    assignment.push_back(policy);
    layer += like.layers;
  }
  return assignment;
}

int LayerPolicyCosts::find(size_t layer, const LayerPolicy& like) const {
  for (size_t w = 0; w < measured_.size(); ++w) {
    const MeasuredPolicy& policy = measured_[w];
    if (policy.measured && same_policy(policy.policy, like) && suits(policy, layer, of_layer_))
      return static_cast<int>(w);
  }
  return -1;
}

RecomputePolicy LayerPolicyCosts::policy_of(const std::vector<int>& assignment) const {
  RecomputePolicy policy{.kind = RecomputePolicy::Kind::chosen};
  int32_t layer = 0;
  for (const int w : assignment) {
    const LayerPolicy option =
        w < 0 ? LayerPolicy{.keeps_all = true} : measured_[static_cast<size_t>(w)].policy;
    const int32_t last = layer + option.layers - 1;
    if (!option.keeps_all) policy.chosen.push_back({layer, last, option.drop});
    layer = last + 1;
  }
  return policy;
}

// Layers that keep least go first: what they work with has most bytes left there.
ParetoPoint LayerPolicyCosts::tidy(const LayerPolicies& layers, const ParetoPoint& point) const {
  const auto kept_per_layer = [&](int w) {
    const LayerPolicy& option = measured_[static_cast<size_t>(w)].policy;
    return option.costs.kept / option.layers;
  };
  const auto of_kind = [&](int w, int kind) {
    const auto& kinds = measured_[static_cast<size_t>(w)].kinds;
    return std::ranges::all_of(kinds, [&](int k) { return k == kind; });
  };
  std::vector<int> sorted = point.options;
  for (auto from = sorted.begin(); from != sorted.end();) {
    const int kind = measured_[static_cast<size_t>(*from)].kinds[0];
    const auto to = std::find_if(from + 1, sorted.end(), [&](int w) { return !of_kind(w, kind); });
    if (of_kind(*from, kind)) {
      std::sort(from, to, [&](int a, int b) {
        return std::pair(kept_per_layer(a), a) < std::pair(kept_per_layer(b), b);
      });
    }
    from = to;
  }
  ParetoPoint other = evaluate(layers, std::move(sorted));
  return other.transient <= point.transient ? other : point;
}

}  // namespace snug
