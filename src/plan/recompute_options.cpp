#include "plan/recompute_options.h"

#include <algorithm>
#include <cmath>

namespace snug {
namespace {

// Of the things that a layer may drop, so many are chosen one by one; smaller ones are kept unless
// all is dropped. Transformer layers have seven or eight.
constexpr size_t kDroppables = 8;
// Many ways are measured at once, in the layers of one compile; so many layers in all.
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

bool same_way(const LayerOption& a, const LayerOption& b) {
  return a.layers == b.layers && a.keeps_all == b.keeps_all && a.drop == b.drop;
}

// The pass that learns alone: what looks and what updates has no part in what is kept.
Module learning_pass(const ForwardBuilder& forward, const Recipe& recipe) {
  Module module = differentiated("measured", forward, recipe);
  module.program("eval").ops.clear();
  sweep_values(module);
  return module;
}

Module ended(Module module, const Recipe& recipe) {
  keep(module, recipe);
  if (recipe.update_in_backward) complete(module, recipe);
  lay_out(module, recipe.backend);
  return module;
}

// What a layer may drop is a question about the values themselves, not about how they are stored.
LayerKinds kinds_of(const Module& learning, Recipe recipe) {
  recipe.update_in_backward = false;
  recipe.compress = CompressKind::none;
  recipe.recompute = {};
  const Module none = ended(learning, recipe);
  recipe.recompute.kind = RecomputePolicy::Kind::full;
  return layer_kinds(none, ended(learning, recipe));
}

}  // namespace

RecomputeOptions::RecomputeOptions(const Variant& variant) {
  const int32_t L = variant.stack.layers;
  const int32_t depth = variant.stack.depth(std::max(kLayersAtOnce, longest_segment(L)));
  Recipe recipe = variant.recipe;
  recipe.recompute = {};
  const Module learning = learning_pass(variant.stack.forward(depth), recipe);
  kinds_ = kinds_of(learning, recipe);
  for (int32_t l = 0; l < L; ++l)
    of_layer_.push_back(kinds_.of_layer[static_cast<size_t>(layer_like(l, depth, L))]);
  const LayerCosts plain(ended(learning, recipe), variant.prices);
  for (int32_t l = 0; l < depth; ++l) plain_seconds_.push_back(plain.of(l, l).seconds);

  const auto kinds = static_cast<int>(kinds_.kinds.size());
  for (int k = 0; k < kinds; ++k) ways_.push_back({{k}, {.keeps_all = true}});
  want_segments();
  for (int k = 0; k < kinds; ++k) want_subsets(k);
  measure(learning, recipe, variant.prices);
  offer_the_best();
}

LayerOptions RecomputeOptions::between(const Costs& before, const Costs& after) const {
  LayerOptions layers = layers_;
  layers.before = before;
  layers.after = after;
  return layers;
}

// Segments of every useful length, once for each run of kinds that the model has.
void RecomputeOptions::want_segments() {
  const auto& of_layer = kinds_.of_layer;
  const auto L = static_cast<int32_t>(of_layer.size());
  for (int32_t n = 1; n <= longest_segment(static_cast<int32_t>(of_layer_.size())); ++n) {
    const size_t before = ways_.size();
    for (int32_t first = 0; first + n <= L; ++first) {
      std::vector<int> kinds(of_layer.begin() + first, of_layer.begin() + first + n);
      const auto of_this_length = ways_.begin() + static_cast<std::ptrdiff_t>(before);
      if (std::find_if(of_this_length, ways_.end(),
                       [&](const Way& way) { return way.kinds == kinds; }) == ways_.end())
        ways_.push_back({std::move(kinds), {.layers = n}});
    }
  }
}

// Every choice of a few of the things that a layer may drop; all of them is a segment already.
void RecomputeOptions::want_subsets(int kind) {
  const auto& all = kinds_.kinds[static_cast<size_t>(kind)];
  std::vector<Droppable> parts = all;
  while (parts.size() > kDroppables)
    parts.erase(std::ranges::min_element(parts, {}, &Droppable::bytes));
  for (uint32_t subset = 1; subset < (1U << parts.size()); ++subset) {
    LayerOption option;
    for (size_t i = 0; i < parts.size(); ++i) {
      if ((subset >> i & 1U) != 0) option.drop.push_back(parts[i].name);
    }
    if (option.drop.size() < all.size()) ways_.push_back({{kind}, std::move(option)});
  }
}

bool RecomputeOptions::suits(const Way& way, size_t layer, const std::vector<int>& of_layer) const {
  return layer + way.kinds.size() <= of_layer.size() &&
         std::equal(way.kinds.begin(), way.kinds.end(),
                    of_layer.begin() + static_cast<std::ptrdiff_t>(layer));
}

// A mixture of ways that have not been measured yet; -1 for a layer that none is left for.
std::vector<int> RecomputeOptions::unmeasured_mixture() const {
  std::vector<int> mixture;
  std::vector<bool> used(ways_.size());
  for (size_t layer = 0; layer < kinds_.of_layer.size();) {
    size_t w = 0;
    while (w < ways_.size() &&
           (ways_[w].measured || used[w] || !suits(ways_[w], layer, kinds_.of_layer)))
      ++w;
    const bool found = w < ways_.size();
    mixture.push_back(found ? static_cast<int>(w) : -1);
    if (found) used[w] = true;
    layer += found ? ways_[w].kinds.size() : 1;
  }
  return mixture;
}

void RecomputeOptions::measure(const Module& learning, Recipe recipe, const CostModel& model) {
  const auto depth = static_cast<int>(plain_seconds_.size());
  for (int layers = 0; layers < kLayersInAll; layers += depth) {
    const std::vector<int> mixture = unmeasured_mixture();
    if (std::ranges::all_of(mixture, [](int w) { return w < 0; })) return;
    recipe.recompute = policy_of(mixture);
    const LayerCosts costs(ended(learning, recipe), model);
    int32_t layer = 0;
    for (const int w : mixture) {
      if (w < 0) {
        ++layer;
        continue;
      }
      Way& way = ways_[static_cast<size_t>(w)];
      way.option.costs = costs.of(layer, layer + way.option.layers - 1);
      way.measured = true;
      for (const int32_t end = layer + way.option.layers; layer < end; ++layer)
        way.option.costs.seconds -= plain_seconds_[static_cast<size_t>(layer)];
    }
  }
}

// Offers to every layer the ways that suit it and that no other way for the same layers beats.
void RecomputeOptions::offer_the_best() {
  layers_.at.resize(of_layer_.size());
  for (size_t w = 0; w < ways_.size(); ++w) {
    const Way& way = ways_[w];
    layers_.options.push_back(way.option);
    const bool beaten = std::ranges::any_of(ways_, [&](const Way& other) {
      return other.measured && other.kinds == way.kinds &&
             beats(other.option.costs, way.option.costs);
    });
    if (!way.measured || beaten) continue;
    for (size_t l = 0; l < layers_.at.size(); ++l) {
      if (suits(way, l, of_layer_)) layers_.at[l].push_back(static_cast<int>(w));
    }
  }
}

std::optional<std::vector<int>> RecomputeOptions::mixture_of(const RecomputePolicy& uniform) const {
  const auto L = static_cast<int32_t>(of_layer_.size());
  const std::vector<Segment> segments = segments_of(uniform, L);
  std::vector<int> mixture;
  for (int32_t layer = 0; layer < L;) {
    const auto segment = std::ranges::find(segments, layer, &Segment::first);
    LayerOption like{.keeps_all = segment == segments.end()};
    if (segment != segments.end()) like.layers = segment->last - segment->first + 1;
    if (uniform.kind == RecomputePolicy::Kind::attention) {
      for (const Droppable& part :
           kinds_.kinds[static_cast<size_t>(of_layer_[static_cast<size_t>(layer)])]) {
        if (part.selective) like.drop.push_back(part.name);
      }
      like.keeps_all = like.drop.empty();
    }
    const int way = find(static_cast<size_t>(layer), like);
    if (way < 0) return {};
    mixture.push_back(way);
    layer += like.layers;
  }
  return mixture;
}

int RecomputeOptions::find(size_t layer, const LayerOption& like) const {
  for (size_t w = 0; w < ways_.size(); ++w) {
    const Way& way = ways_[w];
    if (way.measured && same_way(way.option, like) && suits(way, layer, of_layer_))
      return static_cast<int>(w);
  }
  return -1;
}

RecomputePolicy RecomputeOptions::policy_of(const std::vector<int>& mixture) const {
  RecomputePolicy policy{.kind = RecomputePolicy::Kind::chosen};
  int32_t layer = 0;
  for (const int w : mixture) {
    const LayerOption option =
        w < 0 ? LayerOption{.keeps_all = true} : ways_[static_cast<size_t>(w)].option;
    const int32_t last = layer + option.layers - 1;
    if (!option.keeps_all) policy.chosen.push_back({layer, last, option.drop});
    layer = last + 1;
  }
  return policy;
}

// Layers that keep least go first: what they work with has most room there.
FrontierPoint RecomputeOptions::tidy(const LayerOptions& layers, FrontierPoint point) const {
  const auto kept_per_layer = [&](int w) {
    const LayerOption& option = ways_[static_cast<size_t>(w)].option;
    return option.costs.kept / option.layers;
  };
  const auto of_kind = [&](int w, int kind) {
    const auto& kinds = ways_[static_cast<size_t>(w)].kinds;
    return std::ranges::all_of(kinds, [&](int k) { return k == kind; });
  };
  std::vector<int> sorted = point.options;
  for (auto from = sorted.begin(); from != sorted.end();) {
    const int kind = ways_[static_cast<size_t>(*from)].kinds[0];
    const auto to = std::find_if(from + 1, sorted.end(), [&](int w) { return !of_kind(w, kind); });
    if (of_kind(*from, kind)) {
      std::sort(from, to, [&](int a, int b) {
        return std::pair(kept_per_layer(a), a) < std::pair(kept_per_layer(b), b);
      });
    }
    from = to;
  }
  FrontierPoint other = evaluate(layers, std::move(sorted));
  return other.room <= point.room ? other : point;
}

}  // namespace snug
