// The fastest per-layer recompute policies for every amount of memory: a Pareto frontier of bytes
// and seconds, by exact dynamic programming.
//
// A policy for the next layers fits into `bytes` where its working bytes do, and leaves bytes -
// kept to the layers above:
//
//   seconds(i, bytes) = min over policies p of layer i with p.working <= bytes
//                       of p.seconds + seconds(i + p.layers, bytes - p.kept)
//
// Nothing here depends on a budget, so one table answers all of them, and more bytes are never
// slower.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "search/layer_costs.h"

namespace snug {

// What the next `layers` layers keep and drop, and what that costs.
struct LayerPolicy {
  int32_t layers = 1;
  bool keeps_all = false;
  std::vector<std::string> drop = {};  // as in Segment: empty is everything, unless it keeps all
  Costs costs = {};                    // seconds beyond those of a run that keeps all
};

struct LayerPolicies {
  std::vector<LayerPolicy> options;
  std::vector<std::vector<int>> at;  // by layer: indices of the options that may begin there
  Costs before, after;               // of what runs before the layers and after them
  int64_t other_programs = 0;        // transient bytes that another program needs in any case
};

struct ParetoPoint {
  int64_t transient = 0;     // bytes of all local values
  double seconds = 0;        // of one run, beyond one that keeps all
  std::vector<int> options;  // from the first layer on
};

// By rising transient bytes and falling seconds. Exact as long as a layer has at most `states`
// points; beyond that, one for each slice of bytes.
std::vector<ParetoPoint> pareto_frontier(const LayerPolicies& layers, size_t states = 500);

// Bytes and seconds of one assignment.
ParetoPoint evaluate(const LayerPolicies& layers, std::vector<int> options);

}  // namespace snug
