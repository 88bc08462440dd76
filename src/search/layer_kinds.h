// Which layers of a model are alike, and what a layer of each kind may drop between forward and
// backward.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "ir/program.h"

namespace snug {

// What one op makes and backward reads: dropped together, for one repeat computes it all.
struct Droppable {
  std::string name;  // as Segment::drop spells it
  int64_t bytes = 0;
  bool selective = false;
  friend bool operator==(const Droppable&, const Droppable&) = default;
};

struct LayerKinds {
  std::vector<std::vector<Droppable>> kinds;
  std::vector<int> of_layer;
};

// From the same model compiled to keep all and to keep only what enters each layer: a layer may
// drop what backward reads in the first and no longer reads in the second.
LayerKinds layer_kinds(const Module& none, const Module& full);

}  // namespace snug
