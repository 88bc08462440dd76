// How a plan that moves values and fits becomes a faster one: by using what it leaves of the device and of
// the host, and by other homes.
#include <algorithm>

#include "base/parallel.h"
#include "search/home_steps.h"
#include "search/room.h"
#include "search/search.h"

namespace snug {

// Where it began, with values brought earlier or later: to be tried.
std::vector<PlanSearch::Tried> PlanSearch::brought_otherwise(const Tried& tried) const {
  std::vector<Tried> all;
  for (int32_t ahead = least_ahead(tried.variant); ahead <= most_ahead(tried.variant); ++ahead) {
    if (ahead == tried.variant.settings.recipe.offload.ahead) continue;
    all.push_back({.variant = brought_ahead(variants_[tried.of], ahead),
                   .policy = tried.policy,
                   .of = tried.of});
  }
  return all;
}

// What was moved as a whole moves in fewer layers where there is room for the others: first what a
// step moves most often, from disk to the host before to the device. Each is faster than the one
// before it, as trials say; the first is `tried` itself.
std::vector<PlanSearch::Tried> PlanSearch::with_room_used(Tried tried, const Limits& limits) {
  constexpr OffloadItem kItems[] = {OffloadItem::params, OffloadItem::grads, OffloadItem::optimizer,
                                    OffloadItem::master};
  std::vector<Tried> better{std::move(tried)};
  if (better[0].variant.plain.empty()) return better;
  const Room room = estimates_.room_of(better[0].variant);
  for (const Space space : {Space::host, Space::device}) {
    for (const OffloadItem item : kItems) {
      // What moves less needs less staging, which is room for more.
      while (auto other = use_room_in(room, space, item, better.back(), limits))
        better.push_back(std::move(*other));
    }
  }
  return better;
}

// None where that is no faster. The last layer to come home may cost more than it saves, and the host
// may have been faster with the updates of some: then they stay where they are.
std::optional<PlanSearch::Tried> PlanSearch::use_room_in(const Room& room, Space space,
                                                         OffloadItem item, const Tried& tried,
                                                         const Limits& limits) {
  constexpr int32_t kFewer = 2;  // layers, where staging turns out to need them
  constexpr int64_t kParts = 4;  // of all layers
  const int64_t left = limits.left_by(tried.arena)[space];
  std::vector<int64_t> sizes{left};
  const bool is_state = item == OffloadItem::optimizer || item == OffloadItem::master;
  for (int64_t part = 1; part < kParts; ++part) {
    const int64_t size = part * room.bytes_of(item) / kParts;
    if (is_state && tried.variant.settings.recipe.host_update.on && size < left)
      sizes.push_back(size);
  }
  std::optional<Tried> best;
  for (const int64_t size : sizes) {
    for (int32_t fewer = 0; fewer <= kFewer; ++fewer) {
      const auto offload =
          room.with_nearer(tried.variant.settings.recipe.offload, item, space, size, fewer);
      if (!offload) continue;
      Variant variant = with_homes(tried.variant, *offload);
      if (!host_updates_something(variant)) continue;
      auto other = tried_with(std::move(variant), tried.policy, limits);
      if (!other) continue;
      other->of = tried.of;
      if (!best || other->seconds < best->seconds) best = std::move(other);
      if (offload->moves(item)) break;
    }
  }
  if (best && best->seconds >= tried.seconds) return std::nullopt;
  return best;
}

// From step to step, as long as one is faster; the fastest last. The first goes where most is gained,
// the others by what each thing promised then.
template <typename StepsOf>
std::vector<PlanSearch::Tried> PlanSearch::climbed_by(const StepsOf& steps_of, const Tried& tried,
                                                      const Limits& limits) {
  std::vector<Tried> path;
  if (tried.variant.plain.empty()) return path;
  std::vector<std::pair<double, Changed>> order;
  std::optional<Tried> first;
  for (const Changed what : kChanged) {
    auto next = fastest_of(steps_of(tried, what), tried, limits);
    order.emplace_back(next ? next->seconds : kForever, what);
    if (next && next->seconds < (first ? *first : tried).seconds) first = std::move(next);
  }
  if (!first) return path;
  std::ranges::stable_sort(order, {}, &std::pair<double, Changed>::first);
  path.push_back(*std::move(first));
  for (size_t i = 1, unchanged = 0; unchanged + 1 < order.size(); ++i) {
    const Tried& now = path.back();
    const Changed what = order[i % order.size()].second;
    auto next = fastest_of(steps_of(now, what), now, limits);
    unchanged = next ? 0 : unchanged + 1;
    if (next) path.push_back(*std::move(next));
  }
  return path;
}

std::vector<PlanSearch::Tried> PlanSearch::with_large_steps(const Tried& tried,
                                                            const Limits& limits) {
  const Offload& began = variants_[tried.of].settings.recipe.offload;
  const Room room = estimates_.room_of(tried.variant);
  return climbed_by(
      [&](const Tried& t, Changed what) {
        return large_steps(t.variant, what, began, room, limits.left_by(t.arena));
      },
      tried, limits);
}

std::vector<PlanSearch::Tried> PlanSearch::with_small_steps(const Tried& tried,
                                                            const Limits& limits) {
  const Offload& began = variants_[tried.of].settings.recipe.offload;
  return climbed_by(
      [&](const Tried& t, Changed what) { return small_steps(t.variant, what, began); }, tried,
      limits);
}

// None where no step is faster than where it is now.
std::optional<PlanSearch::Tried> PlanSearch::fastest_of(const std::vector<Step>& steps,
                                                        const Tried& now, const Limits& limits) {
  std::vector<std::optional<Tried>> others(steps.size());
  for_each_in_parallel(steps.size(), [&](size_t i) {
    for (size_t v = 0; v < steps[i].size() && !others[i]; ++v)
      others[i] = tried_with(steps[i][v], now.policy, limits);
  });
  std::optional<Tried> best;
  for (std::optional<Tried>& other : others) {
    if (other && other->seconds < (best ? *best : now).seconds) best = std::move(other);
  }
  if (best) best->of = now.of;
  return best;
}

// A plan that takes more than its trial said, within smaller limits: a small step from it, or the fastest
// of the others, becomes the last.
void PlanSearch::retreat(Found from, const Limits& limits, std::vector<Found>& fast) {
  const auto arena = [&](Found f) {
    const Candidate& c = states_[f.variant].candidates[f.candidate];
    return c.arena.value_or(c.least);
  };
  const auto best = std::ranges::find_if(fast.rbegin(), fast.rend(),
                                         [&](Found f) { return arena(f).fits_in(limits); });
  double below = kForever;
  if (best != fast.rend()) {
    below = states_[best->variant].candidates[best->candidate].seconds;
    std::rotate(fast.rbegin(), best, best + 1);
  }
  if (!is_moved(from.variant)) return;
  Tried tried = tried_as(from);
  tried.seconds = below;
  for (const Changed what : kChanged) {
    const Offload& began = variants_[tried.of].settings.recipe.offload;
    if (auto other = fastest_of(small_steps(tried.variant, what, began), tried, limits)) {
      tried.seconds = other->seconds;
      fast.push_back(enter({other->of, 0}, *std::move(other)));
    }
  }
}

}  // namespace snug
