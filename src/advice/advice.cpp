#include "advice/advice.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <optional>
#include <tuple>

#include "advice/advice_candidates.h"
#include "base/error.h"
#include "base/parallel.h"
#include "base/text.h"
#include "search/estimate.h"
#include "search/largest.h"
#include "search/variants.h"

namespace snug {
namespace {

constexpr int64_t kTile = 64;         // long sequences are as long as kernels like them
constexpr double kWorthwhile = 0.01;  // of the bytes: a change that saves less is no advice

double seconds_per_token(const PlannedRun& planned) {
  const double tokens = static_cast<double>(planned.run.options.global_batch) *
                        static_cast<double>(planned.run.build.seq);
  return planned.step_seconds / tokens;
}

struct Tried {
  Advice advice;
  bool other_method = false;
};

// Pins what a budget had left open, as it was chosen.
Change pins_of(const PlannedRun& planned) {
  const Resolved& run = planned.run;
  Change pins;
  if (!run.budget) return pins;
  for (const Change& change : planned.changed) pins += change;
  const auto pin = [&](bool open, const OptionValue& value) {
    if (open && !pins.sets(*value.option)) pins += {value};
  };
  pin(run.asked.accum == 0, {&Options::accum, run.recipe.accum});
  pin(!run.asked.attention, {&Options::attention, run.options.attention});
  pin(!run.asked.loss, {&Options::loss, run.options.loss});
  return pins;
}

// With its choices given as options, so that --allow has none left.
Resolved pinned(const PlannedRun& planned, const Change& pins) {
  Resolved run = planned.run;
  run.asked.allow = run.options.allow = {};
  return changed(run, pins);
}

// Changes tried on one run.
class Adviser {
 public:
  explicit Adviser(const PlannedRun& now)
      : now_(now),
        pins_(pins_of(now)),
        pinned_(pinned(now, pins_)),
        arena_(arena_of(now.plan)),
        fits_(enough(arenas_of(now.plan.module))) {}

  std::vector<Advice> found() {
    fits_ ? look_for_better() : look_for_what_fits();
    std::ranges::stable_sort(tried_, {}, [this](const Tried& t) { return rank(t); });
    std::vector<Advice> advice;
    for (Tried& t : tried_) advice.push_back(std::move(t.advice));
    return advice;
  }

 private:
  bool enough(const SpaceBytes& arenas) const { return arenas.fits_in(now_.run.limits()); }
  bool something_fits() const {
    return std::ranges::any_of(tried_, [&](const Tried& t) { return enough(t.advice.needs()); });
  }
  int64_t state_bytes() const {
    const CategoryBytes& shared = now_.plan.memory.shared;
    int64_t bytes = 0;
    for (Category c : {Category::params, Category::master, Category::grads, Category::optimizer})
      bytes += shared[static_cast<size_t>(c)];
    return bytes;
  }
  int64_t weights_in_16_bits() const {
    const MemoryBreakdown& memory = now_.plan.memory;
    return 2 * (memory.trainable_params + memory.frozen_params);
  }

  void look_for_better() {
    std::vector<Candidate> candidates;
    for (const Touches touches : {Touches::arithmetic, Touches::activations, Touches::state})
      std::ranges::move(helpful_changes(now_.run, touches), std::back_inserter(candidates));
    const std::vector<int64_t> smaller = smaller_micro_batches(now_.run);
    if (!micro_batch_is_open() && !smaller.empty())
      candidates.push_back({micro_batch_change(now_.run, smaller.back()), Effect::rounding});
    try_all(candidates);
  }

  // Changes that cannot help are not tried: those of activations where the state is too large, and
  // all where not even bare weights would fit.
  void look_for_what_fits() {
    const int64_t device = now_.run.limits()[Space::device];
    if (weights_in_16_bits() > device) return;
    const bool activations_decide = state_bytes() < device;
    if (activations_decide) {
      try_all(helpful_changes(now_.run, Touches::activations));
      if (!micro_batch_is_open()) try_micro_batches();
    }
    try_all(helpful_changes(now_.run, Touches::state));
    try_all(last_resorts(now_.run));
    if (activations_decide && !something_fits()) try_shorter();
    for (const Candidate& candidate : combinations(now_.run)) {
      if (something_fits()) return;
      try_all({candidate});
    }
  }

  // Side by side.
  void try_all(const std::vector<Candidate>& candidates) {
    std::vector<std::optional<Tried>> tried(candidates.size());
    for_each_in_parallel(candidates.size(), [&](size_t i) { tried[i] = advice_of(candidates[i]); });
    for (std::optional<Tried>& t : tried)
      if (t) tried_.push_back(*std::move(t));
  }

  bool micro_batch_is_open() const { return now_.run.budget && now_.run.asked.accum == 0; }

  // The run as it was settled, with a change added. None: the options refuse it.
  std::optional<Resolved> with(const Change& change) const {
    return unless_refused([&] { return changed(pinned_, change); });
  }
  // Planned as cheaply as its answer allows. None: it cannot help, or is refused.
  struct Attempt {
    PlannedRun planned;
    Change pins;  // the search's choices
  };
  std::optional<Attempt> planned(const Change& change) {
    const std::optional<Resolved> run = with(change);
    if (!run) return std::nullopt;
    if (!run->budget || !budget_decides(*run)) return Attempt{plan_run(*run), pins_};
    const Estimate estimate = estimates_.of(variant_of(*run));
    if (estimate.arena().fits_in(run->limits())) {  // nothing has to be recomputed, but for gaps
      const Change all_kept = technique("recompute nothing").change;
      if (std::optional<Resolved> plain = with(change + all_kept)) {
        PlannedRun kept = plan_run(*plain);
        if (enough(arenas_of(kept.plan.module))) return Attempt{std::move(kept), pins_ + all_kept};
      }
    }
    if (!estimate.least_arena().fits_in(run->limits())) return std::nullopt;
    if (fits_ && estimate.least_seconds > now_.step_seconds) return std::nullopt;
    return Attempt{plan_run(*run), pins_};
  }

  // None: it is not worth saying.
  std::optional<Tried> advice_of(const Candidate& candidate) {
    // --recompute auto:BYTES may ask for less than there is.
    auto then = unless_refused([&] { return planned(candidate.change); });
    if (!then || !*then) return std::nullopt;
    const Attempt& found = **then;
    const SpaceBytes arenas = arenas_of(found.planned.plan.module);
    const int64_t peak = arenas[Space::device];
    const Advice advice{.change = flags_of(candidate.change),
                        .pins = flags_of(found.pins),
                        .effect = candidate.effect,
                        .peak_bytes = peak,
                        .saves_bytes = arena_ - peak,
                        .step_ms = found.planned.step_seconds * 1e3,
                        .slower = seconds_per_token(found.planned) / seconds_per_token(now_) - 1,
                        .host_bytes = arenas[Space::host],
                        .disk_bytes = arenas[Space::disk]};
    if (!worth_saying(advice)) return std::nullopt;
    return Tried{advice, candidate.other_method};
  }

  bool worth_saying(const Advice& a) const {
    if (!fits_) return a.saves_bytes > 0 || enough(a.needs());
    if (!enough(a.needs())) return false;
    const double saved = static_cast<double>(a.saves_bytes) / static_cast<double>(arena_);
    return is_faster(a) || saved > kWorthwhile;
  }

  // As many sequences in a step, the most at a time that fit.
  void try_micro_batches() {
    const std::vector<int64_t> sizes = smaller_micro_batches(now_.run);
    const auto too_large = std::ranges::partition_point(
        sizes, [&](int64_t n) { return enough(need_with(micro_batch_change(now_.run, n))); });
    if (!sizes.empty()) {
      const int64_t n = too_large == sizes.begin() ? sizes.front() : *std::prev(too_large);
      try_all({{micro_batch_change(now_.run, n), Effect::rounding}});
    }
  }

  // One sequence at a time, and the longest that fits.
  void try_shorter() {
    const auto shorter = [&](int64_t seq) {
      Change change;
      if (now_.run.build.batch > 1) change += micro_batch_change(now_.run, 1);
      return change + Change{{&Options::seq, seq}};
    };
    const int64_t limit = now_.run.build.seq - 1;
    if (limit < 1) return;
    int64_t seq =
        find_largest({.start = (limit + 1) / 2, .limit = limit, .bytes = now_.run.limits()},
                     [&](int64_t n) { return need_with(shorter(n)); })
            .n;
    if (seq >= kTile * 4) seq -= seq % kTile;
    if (seq > 0) try_all({{shorter(seq), Effect::learning, true}});
  }

  // The fewest bytes of the arenas; endless where the options refuse the change.
  SpaceBytes need_with(const Change& change) const {
    const std::optional<Resolved> run = with(change);
    if (!run) return on_device(kUnlimited);
    return budget_decides(*run) ? search_for(*run).smallest_feasible(run->limits())
                                : arenas_of(plan_run(*run).plan.module);
  }

  // Lower is better.
  std::tuple<bool, int, double> rank(const Tried& t) const {
    const Advice& a = t.advice;
    const int numbers = (a.effect == Effect::learning ? 1 : 0) + (t.other_method ? 1 : 0);
    if (!fits_ && !enough(a.needs())) return {true, 0, static_cast<double>(a.peak_bytes)};
    if (!fits_ || is_faster(a)) return {false, numbers, a.slower};
    const double cost = std::max(a.slower, kWorthwhile / 2);
    return {true, numbers, -static_cast<double>(a.saves_bytes) / cost};
  }

  const PlannedRun& now_;
  const Change pins_;
  const Resolved pinned_;  // the run with them
  const int64_t arena_;
  const bool fits_;
  std::vector<Tried> tried_;
  Estimates estimates_;
};

}  // namespace

std::vector<Advice> advice_for(const PlannedRun& planned) { return Adviser(planned).found(); }

}  // namespace snug
