// The cheapest mixture of layer options for every amount of memory, by exact dynamic programming.
//
// Room is what a run of layers has once the layers below it hold what they keep. An option for the
// first of them fits in a room when its working bytes do, and leaves room - kept to the layers
// above:
//
//   seconds(i, room) = min over options o of layer i with o.working <= room
//                      of o.seconds + seconds(i + o.layers, room - o.kept)
//
// Nothing here depends on a budget, so one table answers all of them, and more room is never
// slower.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "plan/layer_costs.h"

namespace snug {

// One way to treat the next `layers` layers.
struct LayerOption {
  int32_t layers = 1;
  bool keeps_all = false;
  std::vector<std::string> drop = {};  // as in Segment: empty is everything, unless it keeps all
  Costs costs = {};                    // seconds beyond those of a run that keeps all
};

struct LayerOptions {
  std::vector<LayerOption> options;
  std::vector<std::vector<int>> at;  // by layer: indices of the options that may begin there
  Costs before, after;               // what stands in front of the layers and behind them
  int64_t elsewhere = 0;             // room that another program needs in any case
};

struct FrontierPoint {
  int64_t room = 0;          // of all local values
  double seconds = 0;        // of one run, beyond one that keeps all
  std::vector<int> options;  // from the first layer on
};

// By rising room and falling seconds. Exact as long as a layer has at most `states` points; beyond
// that, one for each slice of room.
std::vector<FrontierPoint> frontier_of(const LayerOptions& layers, size_t states = 500);

// Room and seconds of one mixture.
FrontierPoint evaluate(const LayerOptions& layers, std::vector<int> options);

}  // namespace snug
