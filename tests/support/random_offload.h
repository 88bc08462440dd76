// Random offloads for the recipes of random_recipe.h, and the check that they are exact: every loss
// and every persistent value has the bits of the run that keeps all on the device.
#pragma once

#include <functional>

#include "support/random_recipe.h"
#include "support/small_run.h"

namespace snug {

// A recipe with something in host memory or on disk, in slices and orders of any kind, some of it
// updated on the host, by a seed.
struct DrawnOffload : DrawnRecipe {
  Offload offload;
  bool fold = false;
  HostUpdate host_update;
};
DrawnOffload draw_offload(int seed);

struct OffloadRun {
  const char* how;
  ExecutorOptions options = {};
};
// Trains some steps on `device` (none: the CPU), without the offload and with it in each of these
// variants; what was planned is allocated and measured in every space.
void expect_offload_is_exact(const DrawnOffload& drawn, const std::vector<OffloadRun>& runs,
                             Device* device = nullptr);

}  // namespace snug
