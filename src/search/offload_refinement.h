// What is done with a plan that moves values and is known to fit: the memory that is left is used, and
// values are prefetched at other distances or updated by the host's cores.
//
//   OffloadRefinement refinement(all, estimates, trials);
//   for (TriedPlan& better : refinement.with_room_used(tried, limits)) ...
//
// Several threads may ask.
#pragma once

#include <optional>
#include <vector>

#include "search/candidates.h"

namespace snug {

struct PlanToTry {
  Variant variant;
  RecomputePolicy policy;
  size_t of = 0;  // the variant that it began with
};

class OffloadRefinement {
 public:
  OffloadRefinement(const Candidates& all, Estimates& estimates, Trials& trials)
      : all_(all), estimates_(estimates), trials_(trials) {}

  // With fewer layers moved where there is room for them, the plan itself among them.
  std::vector<TriedPlan> with_room_used(const TriedPlan& tried, const Limits& limits) const;
  // Where it began, at other prefetch distances, and with its embedding and head on the device.
  std::vector<PlanToTry> at_other_distances(const TriedPlan& tried) const;
  // With half of the layers, or all of what is in the host's memory, updated by its cores: those that
  // are faster, the fastest last.
  std::vector<TriedPlan> with_host_updates(const TriedPlan& tried, const Limits& limits) const;
  // From this to a neighbour that is faster, with the room used, and on from there until none is: each
  // faster than the one before it.
  std::vector<TriedPlan> descended(TriedPlan tried, const Limits& limits) const;

 private:
  std::optional<TriedPlan> best_neighbour(const TriedPlan& tried, const Limits& limits) const;
  std::vector<TriedPlan> filled(TriedPlan tried, const Limits& limits) const;
  std::optional<TriedPlan> use_room_in(const Room& room, Space space, OffloadItem item,
                                       const TriedPlan& tried, const Limits& limits) const;

  const Candidates& all_;
  Estimates& estimates_;
  Trials& trials_;
};

}  // namespace snug
