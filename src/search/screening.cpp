#include "search/screening.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

namespace snug {
namespace {

// Is another of the group at least as good in everything, and better or before it in the order?
bool no_better(const Candidates& all, size_t v, std::span<const size_t> group) {
  const Estimate& mine = *all.estimate_of(v);
  return std::ranges::any_of(group, [&](size_t other) {
    const auto& theirs = all.estimate_of(other);
    if (other == v || !theirs || !no_worse(*theirs, mine)) return false;
    return !no_worse(mine, *theirs) ||
           std::pair(all.variants()[other].effect, other) < std::pair(all.variants()[v].effect, v);
  });
}

// Is one of its picks worse than the default where another of them is at its default? Then it is
// worse with this one, too: a kind of attention with a kind of loss.
bool worse_with_defaults(const Candidates& all, size_t v) {
  const std::vector<Variant>& variants = all.variants();
  const auto known = [&](const std::vector<int>& picks) {
    const auto place = all.with_picks(picks);
    return place && all.estimate_of(*place) ? *place : v;
  };
  std::vector<int> picks = variants[v].picks;
  for (size_t e = 0; e < picks.size(); ++e) {
    const int pick = std::exchange(picks[e], 0);
    const size_t without = known(picks);
    for (size_t d = 0; d < picks.size() && pick != 0 && without != v; ++d) {
      const int own = std::exchange(picks[d], 0);
      const size_t plain = known(picks);
      picks[d] = own;
      if (own == 0 || plain == v ||
          work_key(variants[plain].settings) != work_key(variants[v].settings) ||
          work_key(variants[without].settings) != work_key(variants[v].settings))
        continue;
      const Estimate& a = *all.estimate_of(plain);
      const Estimate& b = *all.estimate_of(without);
      if (no_worse(a, b) && (!no_worse(b, a) || variants[plain].effect <= variants[without].effect))
        return true;
    }
    picks[e] = pick;
  }
  return false;
}

// What stays between the programs of a step where values move, as `plain` would without; in another
// order of micro-batches it may carry no gradients.
SpaceBytes least_of_moved(const Candidates& all, Estimates& estimates, size_t v, size_t plain) {
  const Variant& variant = all.variants()[v];
  const Room room = estimates.room_of(variant);
  SpaceBytes least =
      all.estimate_of(plain)->persistent + room.moved_by(variant.settings.recipe.offload);
  least[Space::device] += room.bytes_of(OffloadItem::grads) -
                          estimates.room_of(all.variants()[plain]).bytes_of(OffloadItem::grads);
  return least;
}

}  // namespace

Screened screen(Candidates& all, Estimates& estimates) {
  const std::vector<Variant>& variants = all.variants();
  Screened out{.contenders = {}, .least = std::vector<SpaceBytes>(variants.size())};
  std::vector<bool> outdone(variants.size());
  std::unordered_map<Settings, std::vector<size_t>> groups;
  for (size_t v = 0; v < variants.size(); ++v) {
    if (!variants[v].plain.empty()) {
      const auto plain = all.with_picks(variants[v].plain);
      outdone[v] = !plain || !all.estimate_of(*plain);
      if (!outdone[v]) out.least[v] = least_of_moved(all, estimates, v, *plain);
      continue;
    }
    outdone[v] = worse_with_defaults(all, v);
    if (outdone[v]) continue;
    all.estimate(v);
    groups[work_key(variants[v].settings)].push_back(v);
  }
  for (const auto& [key, group] : groups) {
    for (const size_t v : group) outdone[v] = no_better(all, v, group);
  }
  for (size_t v = 0; v < variants.size(); ++v)
    if (!outdone[v]) out.contenders.push_back(v);
  return out;
}

}  // namespace snug
