// Where the steps of a training are in a trace: from the optimizer's frames, else from backward's,
// else from what repeats.
#pragma once

#include <vector>

#include "pytorch/replay.h"
#include "pytorch/stacks.h"

namespace snug::pytorch {

struct Step {
  int64_t begin = 0;   // the last moment of the step before it
  int64_t update = 0;  // the first moment of its update; `end` where that is not known
  int64_t end = 0;     // the last moment of the update
};

enum class StepsFrom : uint8_t { nothing, optimizer, backward, repetition };

struct Steps {
  std::vector<Step> all;
  StepsFrom from = StepsFrom::nothing;
  bool has_frames = false;  // allocations say where they were made

  // The step of a moment: the first that has not ended by then; all.size() after the last.
  size_t at(int64_t moment) const;
};

Steps find_steps(const DeviceSnapshot& device, const std::vector<StackFacts>& stacks);

}  // namespace snug::pytorch
