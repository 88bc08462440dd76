// What a search chooses among: variants, with an estimate of each where it was needed, and, once a
// variant is expanded, its candidates: policies for what it recomputes.
//
//   Candidates all(variants, estimates, policies, trials);
//   all.expand(0);
//   all.size_of({0, 3});   // tries it: its bytes and seconds are exact from now on
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "search/policy_cache.h"
#include "search/trials.h"

namespace snug {

struct PlanCandidate {
  const PolicyAssignment* assignment =
      nullptr;  // none: the pinned policy; keeps all where it is open
  std::optional<RecomputePolicy> uniform = {};  // or this one
  double seconds = 0;                           // of a step: exact once tried
  SpaceBytes least = {};                        // it is not tried for limits below this
  std::optional<SpaceBytes> arena = {};         // once tried
  double compute = 0, other = 0, waiting = 0;   // of lanes, as Expected has them
};

struct CandidateId {
  size_t variant = 0, candidate = 0;
};

class Candidates {
 public:
  Candidates(std::vector<Variant> variants, Estimates& estimates, PolicyCache& policies,
             Trials& trials);

  // Those that were given, then plans that were entered.
  const std::vector<Variant>& variants() const { return variants_; }
  size_t given() const { return given_; }
  std::optional<size_t> with_picks(const std::vector<int>& picks) const;
  bool moves(size_t variant) const;  // values, to other memory

  // Of different variants several threads may ask at once; the same holds for `expand`, but for
  // variants that share assignments.
  void estimate(size_t variant);
  const std::optional<Estimate>& estimate_of(size_t variant) const {
    return states_[variant].estimate;
  }
  // However little it recomputes; of one that moves values, what its plain one computes.
  double least_seconds(size_t variant) const;

  void expand(size_t variant);  // estimated before
  bool is_expanded(size_t variant) const { return states_[variant].expanded; }
  const std::vector<PlanCandidate>& of(size_t variant) const { return states_[variant].candidates; }
  const PlanCandidate& operator[](CandidateId id) const {
    return states_[id.variant].candidates[id.candidate];
  }
  RecomputePolicy policy_of(CandidateId id) const;

  // The smallest budget for which it may be chosen, the same for every limit; tries it.
  SpaceBytes size_of(CandidateId id);
  // Its plan takes so much.
  void set_arena(CandidateId id, const SpaceBytes& arena);

  TriedPlan tried(CandidateId id) const;
  // Enters a plan that was tried as a variant of its own.
  CandidateId enter(TriedPlan plan);
  // The variant that an entered plan began with; any other is its own.
  size_t began_with(size_t variant) const { return states_[variant].of.value_or(variant); }

 private:
  struct State {
    std::optional<Estimate> estimate = {};
    bool expanded = false;
    std::shared_ptr<const PolicyAssignments> assignments = {};
    std::vector<PlanCandidate> candidates = {};
    std::optional<size_t> of = {};
  };
  void expand_uniformly(size_t variant);
  int64_t staging_of(size_t variant);

  Estimates& estimates_;
  PolicyCache& policies_;
  Trials& trials_;
  std::vector<Variant> variants_;
  size_t given_;
  std::vector<State> states_;
  std::map<std::vector<int>, size_t> by_picks_;
};

}  // namespace snug
