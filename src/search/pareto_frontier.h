// The cheapest assignment of layer options for every amount of memory, by exact dynamic
// programming.
//
// Room is what a run of layers has once the layers below it hold what they keep. An option for the
// first of them fits in a transient when its working bytes do, and leaves transient - kept to the
// layers above:
//
//   seconds(i, transient) = min over options o of layer i with o.working <= transient
//                      of o.seconds + seconds(i + o.layers, transient - o.kept)
//
// Nothing here depends on a budget, so one table answers all of them, and more transient is never
// slower.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "search/layer_costs.h"

namespace snug {

// One policy to treat the next `layers` layers.
struct LayerPolicy {
  int32_t layers = 1;
  bool keeps_all = false;
  std::vector<std::string> drop = {};  // as in Segment: empty is everything, unless it keeps all
  Costs costs = {};                    // seconds beyond those of a run that keeps all
};

struct LayerPolicies {
  std::vector<LayerPolicy> options;
  std::vector<std::vector<int>> at;  // by layer: indices of the options that may begin there
  Costs before, after;               // what stands in front of the layers and behind them
  int64_t other_programs = 0;        // transient that another program needs in any case
};

struct ParetoPoint {
  int64_t transient = 0;     // of all local values
  double seconds = 0;        // of one run, beyond one that keeps all
  std::vector<int> options;  // from the first layer on
};

// By rising transient and falling seconds. Exact as long as a layer has at most `states` points;
// beyond that, one for each slice of transient.
std::vector<ParetoPoint> pareto_frontier(const LayerPolicies& layers, size_t states = 500);

// Room and seconds of one assignment.
ParetoPoint evaluate(const LayerPolicies& layers, std::vector<int> options);

}  // namespace snug
