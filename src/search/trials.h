// Whole steps that the search tries: what they take, and for how long they run.
//
//   Trials trials("llama-7b", estimates);
//   trials.placed(variant, policy, effort).arena;      // of one that moves nothing
//   trials.within(variant, policy, 0, limits);         // of one that moves values
#pragma once

#include <optional>
#include <string>
#include <unordered_map>
#include <utility>

#include "placement/plan.h"
#include "search/estimate.h"
#include "search/tried_plan.h"

namespace snug {

class Trials {
 public:
  Trials(std::string name, Estimates& estimates) : name_(std::move(name)), estimates_(estimates) {}

  // The whole step, compiled and placed with this effort.
  Estimates::Trial placed(const Variant& variant, const RecomputePolicy& policy, int64_t effort);
  // The same as a plan, placed with all effort, which never makes it larger, and verified.
  struct Planned {
    Plan plan;
    double seconds = 0;
  };
  Planned plan(const Variant& variant, const RecomputePolicy& policy);
  // The device's arena of a step that keeps all.
  int64_t needed_without(const Variant& variant) const;

  // Where values move, a step is laid out but not placed, and gaps are left out. None where it does
  // not fit. `of`: the variant that it began with. Several threads may ask.
  std::optional<TriedPlan> within(Variant variant, const RecomputePolicy& policy, size_t of,
                                  const Limits& limits);
  // Its plan turned out to take so much: `within` says so from now on.
  void correct(const Variant& variant, const RecomputePolicy& policy, const SpaceBytes& arena);

 private:
  Module compile_with(const Variant& variant, const RecomputePolicy& policy) const;

  std::string name_;
  Estimates& estimates_;
  std::unordered_map<Settings, SpaceBytes> corrected_;
  std::optional<Settings> last_;  // placed last
  Module last_module_;            // of it, not placed
};

// The settings of a variant with this policy: two plans of a search are the same where these are.
Settings settings_with(const Variant& variant, const RecomputePolicy& policy);

}  // namespace snug
