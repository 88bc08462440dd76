// Per-layer policies where some layers' kept values move to other memory between forward and
// backward, and the others stay: what a layer keeps, recomputes and moves is one Pareto frontier.
//
//   const MovedLayers moved{.every = 2, .link = 49e9, .hidden = 3e-3};
//   const LayerPolicies mixed = with_moved(layers, moved);
//   pareto_frontier(mixed)...   as_measured(mixed, point.options)
#pragma once

#include <cstdint>
#include <vector>

#include "search/pareto_frontier.h"
#include "settings/layer_range.h"

namespace snug {

// Layers 0, every, twice every, ...: so that the link has the layers between them to catch up. Not
// the last one, with which backward begins.
struct MovedLayers {
  int32_t every = 2;
  double link = 0;    // bytes per second
  double hidden = 0;  // seconds: a layer's bytes take so long before any op waits for them

  bool holds(int32_t layer, int32_t layers) const {
    return layer % every == 0 && layer + 1 < layers;
  }
  std::vector<LayerRange> ranges(int32_t layers) const;
};

// The same with these layers' kept bytes offloaded: they cost time instead. No segment of several
// layers has one of them.
LayerPolicies with_moved(LayerPolicies layers, const MovedLayers& moved);

// Of one run with this assignment: what matmuls lose to concurrent copies, which no lane shows.
double seconds_lost(const LayerPolicies& mixed, const MovedLayers& moved,
                    const std::vector<int>& assignment);

// An assignment of these in terms of the policies that they were made of.
std::vector<int> as_measured(const LayerPolicies& mixed, std::vector<int> assignment);

}  // namespace snug
