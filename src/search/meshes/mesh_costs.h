// What a rank of a mesh takes in bytes and seconds, without compiling all of it: read from two shallow
// models without stages, of which a stage has so many layers more.
//
//   MeshCosts costs;   const RankCosts& rank = costs.of(run);   // of any mesh
//   arenas_of(rank, shape);   seconds_of(rank, shape);
//
// Without stages both are what a plan has but for gaps, where all layers are alike. Of a pipeline the
// largest stage is meant, and messages are taken to cost nothing.
#pragma once

#include "base/memo.h"
#include "recipe/resolve.h"
#include "search/layer_costs.h"

namespace snug {

// Outside the layers, and of each layer.
template <typename T>
struct ByLayer {
  T outside = {}, layer = {};
};

struct RankCosts {
  ByLayer<double> micro_batch;  // seconds of one more in a step
  ByLayer<double> step;         // and of what a step does once: sums over ranks, the update
  ByLayer<SpaceBytes> shared;   // bytes that live outside one run of a program
  // Of these on the device, what ZeRO's levels share: 1, 2 and 3.
  std::array<ByLayer<int64_t>, 3> sharable;
  Costs before, layer, after;  // of one micro-batch
  int64_t other_programs = 0;
};

// What a mesh makes of these costs.
struct MeshShape {
  int64_t stages = 1, micro_batches = 1;
  double waits =
      0;  // in micro-batches: how long stages that are alike wait for each other in a step
  double kept = 1;     // micro-batches' values that a stage keeps at once, at most
  int64_t layers = 1;  // of the whole model
  bool tied = false;   // first and last stage have the same table
};
SpaceBytes arenas_of(const RankCosts& costs, const MeshShape& shape);
// Of these, one of the parts that ranks may share.
int64_t stage_bytes(const ByLayer<int64_t>& part, const MeshShape& shape);
double seconds_of(const RankCosts& costs, const MeshShape& shape);
// Of these, what micro-batches take.
double micro_batch_seconds_of(const RankCosts& costs, const MeshShape& shape);

class MeshCosts {
 public:
  // Throws a usage error where the mesh cannot cut the model.
  const RankCosts& of(const Resolved& run);

 private:
  Memo<Settings, RankCosts> known_;
};

}  // namespace snug
