// The fastest plan inside a budget, over everything that was left open.
//
//   PlanSearch search("llama-7b", variants);
//   if (const auto choice = search.fastest(bytes)) choice->plan, variants[choice->variant] ...
//   search.smallest_feasible();   // no plan needs less
//
// T(bytes) is the least time, over the variants, of their fastest per-layer policies whose real
// placement fits. Best first: a variant enters with a lower bound of its time (estimate.h), is
// expanded into its policy assignments (policy_assignments.h) when nothing faster is left, and
// these are compiled and placed as their turn comes; the first that fits is the fastest there is.
// The order knows no budget, so more bytes are never slower.
//
// Where values move to other memory, the time of a step is a simulation of lanes, which no sum of
// layers bounds. The limits and a fixed series of smaller ones say which variants are tried there
// (contending.h), and each of them uses the room there is: so what is tried with fewer bytes is, as a rule,
// tried with more, too. Estimates
// and trials that do not need each other are made side by side; what is found does not depend on how
// many cores there are.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "placement/plan.h"
#include "search/contending.h"
#include "search/estimate.h"
#include "search/policy_assignments.h"
#include "search/room.h"
#include "search/variant.h"

namespace snug {

struct Choice {
  size_t variant = 0;
  RecomputePolicy policy;
  Plan plan;                   // placed and verified
  double step_seconds = 0;     // modelled
  double extra_seconds = 0;    // of these, beyond a step of this variant that keeps all
  int64_t needed_without = 0;  // the arena of that step
};

// What else was considered, and why it lost.
struct RunnerUp {
  std::string name;  // the flags that it takes: "--batch 4 --accum 4 --attention standard"
  Effect effect = Effect::exact;
  // On the device: of its fastest plan inside the budget; where there is none, its smallest.
  int64_t bytes = 0;
  double seconds = 0;  // of a step of that plan, modelled
  std::string why;     // "4.2 % slower", "needs 3.10 GiB more than the budget ..."
};

class PlanSearch {
 public:
  // In a tie the earlier variant wins.
  PlanSearch(std::string name, std::vector<Variant> variants);

  const std::vector<Variant>& variants() const { return variants_; }

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
  struct Candidate {
    const PolicyAssignment* assignment =
        nullptr;  // none: the pinned policy; keeps all where it is open
    std::optional<RecomputePolicy> uniform = {};  // or this one
    double seconds = 0;                           // of a step: exact once tried
    SpaceBytes least = {};                        // it is not tried for limits below this
    std::optional<SpaceBytes> arena = {};         // once tried
    double compute = 0, other = 0, waiting = 0;   // of lanes, as Expected has them
  };
  static constexpr double kForever = std::numeric_limits<double>::infinity();
  struct Found {
    size_t variant = 0, candidate = 0;
  };
  struct State {
    std::optional<Estimate> estimate =
        {};                 // none where the variant is known to be outdone without one
    SpaceBytes least = {};  // of one that moves values, known without an estimate
    bool outdone = false;   // another variant is no worse in anything
    bool expanded = false;
    std::shared_ptr<const PolicyAssignments> assignments = {};
    std::vector<Candidate> candidates = {};
    std::optional<size_t> of = {};  // of a plan that was tried: the variant that it began with
  };
  // A plan that was tried and fits, of no variant's state.
  struct Tried {
    Variant variant;
    RecomputePolicy policy;
    SpaceBytes arena;
    double seconds = 0;
    double hope = 0;  // where room was not used yet: what a step is expected to take then
    size_t of = 0;    // the variant that it began with
  };

  void estimate_all();
  SpaceBytes least_of_moved(size_t variant, size_t plain);
  void estimate(size_t variant);
  bool is_moved(size_t variant) const;
  double least_seconds(size_t variant) const;
  void expand_uniformly(size_t variant);
  int64_t staging_of(size_t variant);
  Expected expected_of(Found found);
  bool no_better(size_t variant, std::span<const size_t> group) const;
  bool worse_beside_defaults(size_t variant) const;
  std::vector<size_t> contenders() const;
  std::optional<Found> find_fastest(std::span<const size_t> variants, const Limits& limits);
  Found find_smallest(const Limits& limits);
  void expand(size_t variant);
  std::shared_ptr<const LayerPolicyCosts> layer_costs_of(const Variant& variant);
  std::shared_ptr<const PolicyAssignments> assignments_of(size_t variant);
  SpaceBytes size_of(Found found);
  RecomputePolicy policy_of(Found found) const;
  Module compile_with(size_t variant, const RecomputePolicy& policy) const;
  Choice choice_of(Found found);
  std::vector<Found> fast_within(std::span<const size_t> variants, const Limits& limits);
  std::vector<size_t> began_near_fastest(std::span<const Found> fast) const;
  std::vector<Tried> moved_within(std::span<const size_t> variants, const Limits& limits,
                                  double below);
  std::vector<size_t> worth_expecting(std::span<const size_t> variants, const Limits& limits,
                                      double below);
  std::vector<Tried> starts_of(std::span<const size_t> variants, const Limits& limits,
                               double below);
  template <typename Seconds>
  std::optional<Tried> start_of(size_t variant, const Limits& limits, double below,
                                const Seconds& seconds);
  std::optional<Tried> start(Found found, const Limits& limits, SpaceBytes& excess);
  Tried tried_as(Found found) const;
  std::vector<Tried> tried_all(const std::vector<Tried>& plans, const Limits& limits);
  static std::vector<Tried> near_fastest(std::vector<Tried> plans, double times);
  std::vector<Tried> with_some_moved(const Tried& tried, const Limits& limits);
  std::optional<Tried> with_every_moved(const Tried& tried, int32_t every,
                                        const LayerPolicyCosts& costs, const Limits& limits);
  std::vector<Tried> with_host_updates(const Tried& tried, const Limits& limits);
  std::optional<Tried> tried_with(Variant variant, const RecomputePolicy& policy,
                                  const Limits& limits);
  std::vector<Tried> with_room_used(const Tried& tried, const Limits& limits);
  std::vector<Tried> filled(Tried tried, const Limits& limits);
  std::vector<Tried> brought_otherwise(const Tried& tried) const;
  std::optional<Tried> use_room_in(const Room& room, Space space, OffloadItem item,
                                   const Tried& tried, const Limits& limits);
  Found enter(Found like, Tried tried);
  RunnerUp runner_up(size_t variant, double seconds, const Limits& limits);

  std::string name_;
  std::vector<Variant> variants_;  // those that were given, then plans that were tried
  size_t given_ = 0;
  std::vector<State> states_;
  std::map<std::vector<int>, size_t> by_picks_;
  Estimates estimates_;
  Memo<Settings, std::shared_ptr<const LayerPolicyCosts>> options_;
  Memo<Settings, std::shared_ptr<const PolicyAssignments>> assignments_;
  std::unordered_map<Settings, SpaceBytes> placed_;  // plans that took more than trials said
  std::optional<Found> last_ = {};                   // tried last
  Module last_module_;                               // of it, not placed
};

}  // namespace snug
