// The fastest plan inside a budget, over everything that was left open.
//
//   PlanSearch search("llama-7b", variants);
//   if (const auto choice = search.fastest(bytes)) choice->plan, variants[choice->variant] ...
//   search.smallest_feasible();   // no plan needs less
//
// T(bytes) is the least time, over the variants (candidates.h, screening.h), of their fastest per-layer
// policies whose real placement fits, found best first (best_first.h); where values move to other memory,
// of what is tried there (offload_search.h). More bytes are never slower; where values move, what is tried
// with fewer bytes is, as a rule, tried with more, too. Estimates and trials that do not need each other
// run in parallel; the result does not depend on the number of cores.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "search/activation_offload.h"
#include "search/offload_search.h"
#include "search/runners_up.h"
#include "search/screening.h"

namespace snug {

struct Choice {
  size_t variant = 0;
  RecomputePolicy policy;
  Plan plan;                   // placed and verified
  double step_seconds = 0;     // modelled
  double extra_seconds = 0;    // of these, beyond a step of this variant that keeps all
  int64_t needed_without = 0;  // the arena of that step
};

class PlanSearch {
 public:
  // In a tie the earlier variant wins.
  PlanSearch(std::string name, std::vector<Variant> variants);
  PlanSearch(const PlanSearch&) = delete;
  PlanSearch& operator=(const PlanSearch&) = delete;

  const std::vector<Variant>& variants() const { return all_.variants(); }

  // None: nothing fits in every space.
  std::optional<Choice> fastest(const Limits& limits);
  // The same. Throws does_not_fit, with the smallest feasible arena, when nothing fits.
  Choice choose(const Limits& limits);
  // The fewest bytes on the device, of what stays inside the limits of the other spaces; where
  // nothing does, of all.
  Choice smallest(const Limits& limits = kNoLimits);
  SpaceBytes smallest_feasible(const Limits& limits = kNoLimits);
  // The device's arena of a step that keeps all.
  int64_t needed_without(size_t variant = 0);

  // The variants that differ from the choice in one thing, the fastest first.
  std::vector<RunnerUp> runners_up(const Choice& choice, const Limits& limits);

 private:
  std::vector<CandidateId> fast_within(std::span<const size_t> variants, const Limits& limits);
  std::vector<size_t> began_near_fastest(std::span<const CandidateId> fast) const;
  Choice choice_of(CandidateId id);

  std::string name_;
  Estimates estimates_;
  PolicyCache policies_;
  Trials trials_;
  Candidates all_;
  const Screened screened_;
  OffloadSearch offload_;
  ActivationOffload activations_;
};

}  // namespace snug
