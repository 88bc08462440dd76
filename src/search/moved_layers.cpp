#include "search/moved_layers.h"

#include <algorithm>

namespace snug {
namespace {

// A step loses so much of the time in which copies overlap it, each way; measured on an H200
// (bench/results/2026-11-17-h200-mixed.txt).
constexpr double kSlower = 0.025;

double seconds_one_way(const LayerPolicy& policy, const MovedLayers& moved) {
  return static_cast<double>(policy.costs.kept) / moved.link;
}

double lost_with(double one_way) { return 2 * kSlower * one_way; }

}  // namespace

std::vector<LayerRange> MovedLayers::ranges(int32_t layers) const {
  std::vector<LayerRange> all;
  for (int32_t l = 0; holds(l, layers); l += every) all.push_back({l, l});
  return tidy(std::move(all));
}

LayerPolicies with_moved(LayerPolicies layers, const MovedLayers& moved) {
  const size_t measured = layers.options.size();
  const auto L = static_cast<int32_t>(layers.at.size());
  for (size_t o = 0; o < measured; ++o) {
    LayerPolicy there = layers.options[o];
    const double one_way = seconds_one_way(there, moved);
    there.costs.seconds += lost_with(one_way) + std::max(0.0, one_way - moved.hidden);
    there.costs.kept = 0;
    layers.options.push_back(std::move(there));
  }
  for (int32_t l = 0; l < L; ++l) {
    std::vector<int>& at = layers.at[static_cast<size_t>(l)];
    std::erase_if(at, [&](int o) {
      const int32_t end = l + layers.options[static_cast<size_t>(o)].layers;
      for (int32_t next = l; next < end && end > l + 1; ++next)
        if (moved.holds(next, L)) return true;
      return false;
    });
    if (!moved.holds(l, L)) continue;
    for (int& o : at) o += static_cast<int>(measured);
  }
  return layers;
}

double seconds_lost(const LayerPolicies& mixed, const MovedLayers& moved,
                    const std::vector<int>& assignment) {
  const size_t measured = mixed.options.size() / 2;
  double lost = 0;
  for (const int o : assignment) {
    if (const auto at = static_cast<size_t>(o); at >= measured)
      lost += lost_with(seconds_one_way(mixed.options[at - measured], moved));
  }
  return lost;
}

std::vector<int> as_measured(const LayerPolicies& mixed, std::vector<int> assignment) {
  const auto measured = static_cast<int>(mixed.options.size() / 2);
  for (int& o : assignment) o %= measured;
  return assignment;
}

}  // namespace snug
