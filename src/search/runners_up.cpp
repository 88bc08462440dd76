#include "search/runners_up.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/units.h"
#include "search/best_first.h"

namespace snug {
namespace {

// Of those of the variant that fit.
std::optional<TriedPlan> fastest_of(size_t variant, const Limits& limits, Candidates& all,
                                    OffloadSearch& offload) {
  const size_t only[] = {variant};
  std::optional<TriedPlan> best;
  if (const auto found = find_fastest(all, only, limits)) best = all.tried(*found);
  if (auto moved = offload.plans_within(only, limits, OffloadSearch::kNoBound); !moved.empty())
    best = std::move(moved.back());
  return best;
}

RunnerUp runner_up(size_t variant, double seconds, const Limits& limits, Candidates& all,
                   OffloadSearch& offload) {
  all.estimate(variant);
  const Variant& v = all.variants()[variant];
  RunnerUp other{.name = flags_of(v.change()), .effect = v.effect};
  if (const auto best = fastest_of(variant, limits, all, offload)) {
    other.bytes = best->arena[Space::device];
    other.seconds = best->seconds;
    const double slower = 100 * (best->seconds / seconds - 1);
    other.why = slower < 0.05 ? "no faster" : fmt::format("{:.1f} % slower", slower);
    return other;
  }
  all.expand(variant);
  const auto least = std::ranges::min_element(
      all.of(variant), {}, [&](const PlanCandidate& c) { return size_key(c.least, limits); });
  const SpaceBytes bytes = max(least->arena.value_or(least->least), least->least);
  other.bytes = bytes[Space::device];
  other.seconds = least->seconds;
  other.why = fmt::format("needs {}{}", excess_text(bytes, limits),
                          v.recompute_is_open() ? " however much it recomputes" : "");
  return other;
}

}  // namespace

std::string excess_text(const SpaceBytes& bytes, const Limits& limits) {
  const SpaceBytes left = limits.left_by(bytes);
  const Space space = std::ranges::min(kAllSpaces, {}, [&](Space s) { return left[s]; });
  const std::string what = space == Space::device ? "" : fmt::format(" {} memory", name_of(space));
  return fmt::format("{} more{} than the budget", format_bytes(std::max<int64_t>(-left[space], 1)),
                     what);
}

std::vector<RunnerUp> runners_up(const std::vector<int>& picks, double seconds,
                                 const Limits& limits, Candidates& all, OffloadSearch& offload) {
  std::vector<RunnerUp> others;
  for (size_t v = 0; v < all.given(); ++v) {
    const std::vector<int>& other = all.variants()[v].picks;
    size_t differences = 0;
    for (size_t d = 0; d < picks.size(); ++d) differences += picks[d] != other[d];
    if (differences == 1) others.push_back(runner_up(v, seconds, limits, all, offload));
  }
  const int64_t bytes = limits[Space::device];
  std::ranges::stable_sort(others, {}, [&](const RunnerUp& r) {
    return std::pair(r.bytes > bytes, r.bytes > bytes ? static_cast<double>(r.bytes) : r.seconds);
  });
  return others;
}

}  // namespace snug
