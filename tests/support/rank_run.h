// A job whose ranks are threads of this process: each a SmallRun with a plan and an arena of its own.
//
//   Recipe zero3;
//   zero3.sharding = {.ranks = 4, .level = 3, .threshold = 0};
//   const RankResult all = run_ranks(model, build, zero3, /*steps=*/3);
#pragma once

#include <array>
#include <map>
#include <string>
#include <vector>

#include "support/small_run.h"

namespace snug {

struct RankSpaceBytes {
  int64_t planned = 0, allocated = 0, measured = 0;
  int64_t followed = 0;  // the highest that the null executor saw touched
  // The highest that ops write, by their types: less than planned where what ends the arena is the
  // padding of a local value, for blocks of all ranks, which is moved and never filled. And what of
  // it they write for certain: padding that is exchanged may be as it was.
  int64_t written = 0, certain = 0;
  friend bool operator==(const RankSpaceBytes&, const RankSpaceBytes&) = default;
};

struct RankResult {
  std::vector<float> losses;  // every rank's are the same, or it is a failure
  std::vector<float> norms;   // of the gradients, step by step; the same on every rank
  float evaluated = 0;        // on what every rank was fed last
  // Of the first step, put together from all ranks, as floats; empty where each was gone by its end.
  std::map<std::string, std::vector<float>> gradients;
  // Parameters, masters where there are some, and optimizer state, put together from all ranks.
  std::map<std::string, std::vector<std::byte>> weights;
  int64_t state_bytes = 0;  // of rank 0: what a step keeps of parameters, gradients and state
  std::vector<std::array<RankSpaceBytes, kSpaces>> bytes;  // by rank
};

// Throws what the first rank that failed threw; ranks that wait for each other fail after a minute.
// `options.test.delay_seed` is every rank's own.
RankResult run_ranks(const std::string& model, const BuildOptions& build, const Recipe& recipe,
                     int steps, const ExecutorOptions& options = {});

}  // namespace snug
