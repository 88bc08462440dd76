#include "plan/recompute_search.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/units.h"
#include "plan/price.h"
#include "plan/residency.h"

namespace snug {
namespace {

// A uniform policy is tried although the measured ways say that it needs this much more than the
// budget: they may be wrong about its edges, and it must never be missed.
constexpr double kDoubt = 0.05;

// Large models pack at once; small ones, whose few blocks leave gaps, are not worth a long try.
// What is chosen is placed with all effort, which never makes it larger.
constexpr int64_t kTrialEffort = kPackingEffort / 50;

constexpr const char* kUniform[] = {"none",      "attention", "full",      "sqrt",      "every:2",
                                    "every:3",   "every:4",   "every:6",   "every:8",   "ratio:0.1",
                                    "ratio:0.2", "ratio:0.3", "ratio:0.4", "ratio:0.5", "ratio:0.6",
                                    "ratio:0.7", "ratio:0.8", "ratio:0.9"};

Module placed(Module module) {
  place(module);
  return module;
}

int64_t arena_of(const Module& module) {
  return module.arena_bytes[static_cast<size_t>(Space::device)];
}

// Where local values begin: behind all shared ones.
int64_t floor_of(const Module& module) {
  int64_t floor = 0;
  for (const Value& value : module.values) {
    if (resides_shared(value, Space::device))
      floor = std::max(floor, *value.offset + value.storage_bytes());
  }
  return round_up(floor, alignment_of(Space::device));
}

}  // namespace

RecomputeSearch::RecomputeSearch(std::string name, ForwardBuilder forward, Recipe recipe,
                                 CostModel model)
    : name_(std::move(name)),
      forward_(std::move(forward)),
      recipe_(std::move(recipe)),
      model_(std::move(model)),
      none_(placed(compile_with({}))),
      none_seconds_(price_of(none_, model_).step_seconds),
      floor_(floor_of(none_)),
      options_(none_, forward_, recipe_, model_) {
  for (FrontierPoint& point : frontier_of(options_.layers())) {
    const int64_t least = floor_ + point.room;
    candidates_.push_back({.point = std::move(point), .least = least});
  }
  for (const char* uniform : kUniform) add_uniform(parse_recompute(uniform));
  std::ranges::stable_sort(candidates_, {},
                           [](const Candidate& c) { return std::pair(c.point.seconds, c.least); });
}

void RecomputeSearch::add_uniform(const RecomputePolicy& policy) {
  auto mixture = options_.mixture_of(policy);
  if (!mixture) return;
  FrontierPoint point = evaluate(options_.layers(), std::move(*mixture));
  const auto doubt = static_cast<int64_t>(kDoubt * static_cast<double>(point.room));
  const int64_t least = floor_ + point.room - doubt;
  candidates_.push_back({.point = std::move(point), .uniform = policy, .least = least});
}

RecomputePolicy RecomputeSearch::policy_of(const Candidate& candidate) const {
  if (candidate.uniform) return *candidate.uniform;
  return options_.policy_of(options_.tidy(candidate.point).options);
}

Module RecomputeSearch::compile_with(const RecomputePolicy& policy) const {
  Recipe recipe = recipe_;
  recipe.recompute = policy;
  return compile(name_, forward_, recipe);
}

// The smallest budget for which it may be chosen: the same whoever asks.
int64_t RecomputeSearch::size_of(Candidate& candidate) {
  if (!candidate.arena) {
    last_module_ = compile_with(policy_of(candidate));
    last_ = &candidate;
    Module trial = last_module_;
    place(trial, kTrialEffort);
    candidate.arena = arena_of(trial);
  }
  return std::max(candidate.least, *candidate.arena);
}

int64_t RecomputeSearch::needed_without() const { return arena_of(none_); }

// Making a value again can be quicker than storing it compressed.
bool RecomputeSearch::recompute_is_faster() const {
  constexpr double kNoise = 1e-9;
  return candidates_.front().point.seconds < -kNoise * none_seconds_;
}

int64_t RecomputeSearch::smallest_feasible() {
  std::vector<Candidate*> by_least;
  for (Candidate& c : candidates_) by_least.push_back(&c);
  std::ranges::stable_sort(by_least, {}, &Candidate::least);
  int64_t smallest = needed_without();
  for (Candidate* c : by_least) {
    if (c->least >= smallest) break;
    smallest = std::min(smallest, size_of(*c));
  }
  return smallest;
}

RecomputeChoice RecomputeSearch::choose(int64_t bytes) {
  if (bytes >= needed_without() && !recompute_is_faster()) return choice_of({}, none_);
  for (Candidate& c : candidates_) {
    if (c.least > bytes || size_of(c) > bytes) continue;
    const RecomputePolicy policy = policy_of(c);
    return choice_of(policy, last_ == &c ? last_module_ : compile_with(policy));
  }
  const int64_t smallest = smallest_feasible();
  throw does_not_fit(
      "{} needs at least {} ({} bytes) however much it recomputes, and --recompute auto allows {} "
      "({} bytes)",
      name_, format_bytes(smallest), format_exact(smallest), format_bytes(bytes),
      format_exact(bytes))
      .hint(fmt::format("--recompute auto:{}, a smaller batch or a shorter sequence", smallest));
}

RecomputeChoice RecomputeSearch::choice_of(const RecomputePolicy& policy, Module module) const {
  if (module.level != Level::placed) place(module);
  const double seconds = price_of(module, model_).step_seconds;
  return {.policy = policy,
          .plan = plan_of(std::move(module), recipe_.backend),
          .step_seconds = seconds,
          .extra_seconds = seconds - none_seconds_,
          .needed_without = needed_without()};
}

}  // namespace snug
