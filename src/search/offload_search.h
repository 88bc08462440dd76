// The search where values move to other memory. The time of a step is a simulation of lanes there, which
// no sum of layers bounds: the limits and a fixed series of smaller ones say which variants are tried
// (contending.h), and each of them uses the room there is.
#pragma once

#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "search/contending.h"
#include "search/offload_refinement.h"

namespace snug {

class OffloadSearch {
 public:
  static constexpr double kNoBound = std::numeric_limits<double>::infinity();
  static constexpr double kNear = 1.02;  // times as long as the fastest takes: worth a closer look

  // `least`: by given variant, as Screened has it. All outlive this.
  OffloadSearch(Candidates& all, const std::vector<SpaceBytes>& least, Estimates& estimates,
                Trials& trials)
      : all_(all),
        least_(least),
        estimates_(estimates),
        trials_(trials),
        refinement_(all, estimates, trials) {}

  // Plans of those of these variants that move values and may be faster than `below` seconds, or kNoBound:
  // those that were tried and fit, the fastest last.
  std::vector<TriedPlan> plans_within(std::span<const size_t> variants, const Limits& limits,
                                      double below);

 private:
  Expected expected_of(CandidateId id);
  std::vector<size_t> worth_expecting(std::span<const size_t> variants, const Limits& limits,
                                      double below);
  std::vector<TriedPlan> starts_among(std::span<const size_t> worth, const Limits& limits,
                                      double below);
  std::vector<TriedPlan> starts_of(std::span<const size_t> variants, const Limits& limits,
                                   double below);
  template <typename Seconds>
  std::optional<TriedPlan> start_of(size_t variant, const Limits& limits, double below,
                                    const Seconds& seconds);
  std::optional<TriedPlan> start(CandidateId id, const Limits& limits, SpaceBytes& excess);
  void use_room(const std::vector<TriedPlan>& some, const Limits& limits,
                std::vector<TriedPlan>& all);
  std::vector<TriedPlan> tried_otherwise(std::span<const TriedPlan> all, const Limits& limits);

  Candidates& all_;
  const std::vector<SpaceBytes>& least_;
  Estimates& estimates_;
  Trials& trials_;
  OffloadRefinement refinement_;
};

}  // namespace snug
