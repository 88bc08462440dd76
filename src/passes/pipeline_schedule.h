// In which order a stage of a pipeline works on its micro-batches, as runs of programs that need no more
// memory however many there are.
//
//   const StageSchedule schedule(recipe);
//   for (const Run& run : schedule.runs()) ... run.times, run.units
//
// Of the second of three stages:
//
//   1f1b          F0 F1 B0 F2 B1 F3 B2 ...        as many forwards first as there are stages behind it, then
//                                                 one backward for each forward
//   zero-bubble   F0 F1 B0 F2 B1 W0 F3 B2 W1 ...  but what backward does for this stage's own weights, W,
//                                                 comes as many micro-batches later as there are stages
//                                                 before it, and at the end where the stage would wait
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"
#include "passes/recipe.h"

namespace snug {

// What a stage does for a micro-batch; `weights`: the part of backward that no other stage waits for.
enum class StagePart : uint8_t { forward, backward, weights };
constexpr size_t kStageParts = 3;

struct Unit {
  StagePart part;
  int64_t micro_batch;
};

struct Run {
  ProgramRole role;
  int64_t times = 1;
  std::vector<Unit> units = {};
};

class StageSchedule {
 public:
  explicit StageSchedule(const Recipe& recipe);

  // Are gradients of weights a part of their own? Nobody waits for the first stage's backward.
  bool has_weights() const { return delay_ > 0; }

  //   micro_first   the forwards that come first, and some pairs: a forward and the backward of an older one
  //   micro_next    as many pairs as micro-batches are under way, so that each finds its values where an
  //                 earlier run has put them; repeated
  //   micro_last    a pair, and what is left
  std::vector<Run> runs() const;

  // Of a value that one part makes and another reads: for so many micro-batches it is there at once.
  // Each run of micro_next finds them in the same places.
  int64_t places(StagePart made, StagePart read) const;

 private:
  // Micro-batches whose values are there, at most, with the one that is computed.
  int64_t under_way() const { return before_ + 1 + delay_; }
  void add_pairs(Run& run, int64_t first, int64_t end) const;
  void add_backward(Run& run, int64_t micro_batch) const;
  void add_rest(Run& run) const;

  int64_t micro_batches_;
  int64_t before_;  // forwards before the first pair
  int64_t pairs_;
  int64_t delay_ = 0;  // of gradients of weights, in micro-batches
};

// The part of a step in which stages wait, if they are alike, messages are free, and a forward, a
// backward and the gradients of its weights take as long as each other.
double ideal_bubble(const Recipe& recipe);

}  // namespace snug
