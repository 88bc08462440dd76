// A profile: the spans of some steps with their prediction, and what they add up to.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "ir/program.h"
#include "ir/span.h"
#include "placement/breakdown.h"
#include "profile/findings.h"

namespace snug {

// Seconds of a step, on average.
struct Seconds {
  double measured = 0, predicted = 0;
};

struct Profile {
  const Module* module = nullptr;  // placed; outlives this
  std::vector<Span> measured;      // of `steps` steps; empty where nothing ran
  std::vector<Span> predicted;     // of one
  int64_t steps = 0;
  std::string times_from;                     // what the prediction rests on
  double predicted_step = 0;                  // seconds
  double measured_step = 0;                   // of a step while it was measured
  double unmeasured_step = 0;                 // of one without the profile; 0: there was none
  int64_t planned_bytes = 0, peak_bytes = 0;  // of the arena; peak: measured, 0 where nothing ran
  std::vector<int64_t> process_bytes = {};    // after each step
  std::vector<int64_t> context_bytes = {};    // of a GPU, likewise
};

struct LaneTime {
  std::string lane;
  Seconds busy;
};
struct KindTime {
  std::string kind;
  int64_t calls = 0;  // of a step
  Seconds time;
};
struct LayerTime {
  int32_t layer = kNoLayer;
  std::array<Seconds, kPhases> phases{};
};

struct ProfileSums {
  std::vector<LaneTime> lanes;            // as they appear
  std::vector<KindTime> kinds;            // the longest first
  std::array<Seconds, kPhases> phases{};  // on the compute lane
  std::vector<LayerTime> layers;          // by number, what is in no layer first
};
ProfileSums sums_of(const Profile& profile);

}  // namespace snug
