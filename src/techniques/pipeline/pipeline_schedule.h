// In which order a stage of a pipeline works on its micro-batches, as runs of programs that need no more
// memory however many there are.
//
//   const StageSchedule schedule(recipe);
//   for (const ProgramRuns& run : schedule.runs()) ... run.times, run.units
//
// Of the second of three stages:
//
//   1f1b            F0 F1 B0 F2 B1 F3 B2 ...        as many forwards first as there are stages after it, then
//                                                   one backward for each forward
//   zero-bubble     F0 F1 B0 F2 B1 W0 F3 B2 W1 ...  but what backward does for this stage's own weights, W,
//                                                   comes as many micro-batches later as there are stages
//                                                   before it, and at the end where the stage would wait
//   interleaved:2   F0 F1 F2 f0 f1 F3 b0 F4 b1      a stage has two chunks of layers, F B and f b: as many
//                   F5 b2 f3 B0 f4 B1 f5 B2 ...     micro-batches as there are stages go through the first,
//                                                   then these through the second, then the next ones
#pragma once

#include <cstdint>
#include <vector>

#include "ir/program.h"
#include "settings/recipe.h"

namespace snug {

// What a stage does for a micro-batch without waiting for other stages in between, counted in the order
// in which it does: the forwards of its chunks, their backwards, and the part of backward that no other
// stage waits for.
using StagePart = int32_t;

struct Unit {
  StagePart part;
  int64_t micro_batch;
};

struct ProgramRuns {
  ProgramRole role;
  int64_t times = 1;
  std::vector<Unit> units = {};
};

class StageSchedule {
 public:
  explicit StageSchedule(const Recipe& recipe);

  StagePart forward(int64_t chunk) const { return static_cast<StagePart>(chunk); }
  StagePart backward(int64_t chunk) const {
    return static_cast<StagePart>(2 * chunks_ - 1 - chunk);
  }
  StagePart weights() const { return static_cast<StagePart>(2 * chunks_); }
  size_t parts() const { return static_cast<size_t>(2 * chunks_ + (has_weights() ? 1 : 0)); }
  // Micro-batches whose values are there at once, at most, in whole or in part.
  int64_t under_way() const;
  // Are gradients of weights a part of their own? No stage waits for the first one's backward.
  bool has_weights() const { return delay_ > 0; }

  //   micro_first   the forwards that come first, and some pairs: a forward and an older backward
  //   micro_next    pairs of as many micro-batches as are under way, so that each finds its values where
  //                 an earlier run has put them; repeated
  //   micro_last    a pair, and what is left
  std::vector<ProgramRuns> runs() const;

  // As many micro-batches' values as a stage has places for, between forward and backward.
  double kept() const;

  // Of a value that one part makes and another reads: for so many micro-batches it is there at once.
  // Each run of micro_next finds them in the same places.
  int64_t places(StagePart made, StagePart read) const;

 private:
  int64_t most_at_once(StagePart made, StagePart read) const;
  int64_t all_forwards() const { return micro_batches_ * chunks_; }
  // The n-th of all.
  Unit nth(int64_t n, bool is_forward) const;
  void add_pairs(ProgramRuns& run, int64_t first, int64_t end) const;
  void add_backward(ProgramRuns& run, int64_t n) const;
  void add_rest(ProgramRuns& run) const;

  int64_t micro_batches_, stages_, chunks_;
  int64_t before_;          // forwards before the first pair
  int64_t delay_ = 0;       // of gradients of weights, in micro-batches
  int64_t cycle_ = 1;       // micro-batches of micro_next
  std::vector<Unit> step_;  // all of them
};

// How long stages wait in a step, in micro-batches, if they are alike, messages are free, and a forward,
// a backward and the gradients of its weights take as long as each other; and which part of the step it is.
double ideal_wait(const Recipe& recipe);
double ideal_bubble(const Recipe& recipe);

}  // namespace snug
