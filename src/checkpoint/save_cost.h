// The cost of a run's checkpoints, before it begins: bytes, host memory, and the time for which
// training waits.
//
//   const SaveCost cost = save_cost(planned);
//   cost.staging;         // of host memory, so that updates need not wait for the disk
//   cost.waits_seconds;   // by how much a step is longer while a checkpoint is written
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "search/plan_run.h"
#include "settings/saving.h"

namespace snug {

struct SaveCost {
  SaveInterval interval;
  int64_t bytes = 0;         // of a checkpoint
  int64_t staging = 0;       // of host memory, pinned
  double disk_seconds = 0;   // to write one
  double waits_seconds = 0;  // of training, for one; modelled
};
// Staging is as much as host memory has left, and no more than what is on the device.
SaveCost save_cost(const PlannedRun& planned);

// The values saved, in the order of the file: wide elements first, as safetensors have them, and of
// these first what a step changes first. Of a job: by this rank.
std::vector<ValueId> state_to_save(const Module& module, const Recipe& recipe = {});

}  // namespace snug
