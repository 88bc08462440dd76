#include "search/offload_refinement.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/parallel.h"
#include "search/neighbours.h"
#include "search/room.h"

namespace snug {
namespace {

// Is what the host is to update still in its memory, or nothing left to it?
bool host_updates_something(const Variant& variant) {
  return unless_refused([&] {
           require_host_update(variant.settings.recipe, variant.stack.layers);
           return true;
         })
      .has_value();
}

// With all that belongs to no layer on the device.
Variant with_ends_on_device(const Variant& variant) {
  Offload offload = variant.settings.recipe.offload;
  for (Offload::Rule& rule : offload.rules)
    if (rule.layers.empty() && rule.item != OffloadItem::activations)
      rule.layers = {{.first = 0, .last = variant.stack.layers - 1}};
  return with_offload(variant, offload);
}

// These, and the two before them in a fixed series of limits of the device.
std::array<Limits, 3> and_smaller(const Limits& limits) {
  constexpr double kPerDoubling = 2;
  std::array<Limits, 3> all{limits, limits, limits};
  double step = std::ceil(kPerDoubling * std::log2(static_cast<double>(limits[Space::device]))) - 1;
  for (Limits& smaller : std::span(all).subspan(1))
    smaller[Space::device] = static_cast<int64_t>(std::exp2(step-- / kPerDoubling));
  return all;
}

}  // namespace

// The embedding and the head are used at the ends of a step, where lanes wait.
std::vector<PlanToTry> OffloadRefinement::at_other_distances(const TriedPlan& tried) const {
  const Variant& began = all_.variants()[tried.of];
  const Variant ends = with_ends_on_device(began);
  std::vector<PlanToTry> all;
  const auto add = [&](Variant variant) {
    if (host_updates_something(variant))
      all.push_back({std::move(variant), tried.policy, tried.of});
  };
  for (int32_t ahead = least_ahead(began); ahead <= most_ahead(began); ++ahead) {
    if (ahead != tried.variant.settings.recipe.offload.ahead) add(prefetched_ahead(began, ahead));
    if (ends.settings != began.settings && !began.plain.empty()) add(prefetched_ahead(ends, ahead));
  }
  return all;
}

std::vector<TriedPlan> OffloadRefinement::with_host_updates(const TriedPlan& tried,
                                                            const Limits& limits) const {
  const Recipe& now = tried.variant.settings.recipe;
  const int32_t layers = tried.variant.stack.layers;
  if (!tried.variant.host_update_is_open || !keeps_all_on_host(now)) return {};
  std::vector<HostUpdate> updates{{.on = true}};
  if (layers > 1) updates.push_back({.on = true, .layers = {{.first = 0, .last = layers / 2 - 1}}});
  std::erase(updates, now.host_update);
  std::vector<std::optional<TriedPlan>> others(updates.size());
  for_each_in_parallel(updates.size(), [&](size_t i) {
    others[i] =
        trials_.within(with_host_update(tried.variant, updates[i]), tried.policy, tried.of, limits);
  });
  std::vector<TriedPlan> faster;
  for (std::optional<TriedPlan>& other : others)
    if (other && other->seconds < tried.seconds) faster.push_back(*std::move(other));
  std::ranges::stable_sort(faster, std::greater{}, &TriedPlan::seconds);
  return faster;
}

std::optional<TriedPlan> OffloadRefinement::best_neighbour(const TriedPlan& tried,
                                                           const Limits& limits) const {
  std::vector<PlanToTry> others = neighbours_of(tried);
  std::erase_if(others, [](const PlanToTry& p) { return !host_updates_something(p.variant); });
  std::vector<std::optional<TriedPlan>> fit(others.size());
  for_each_in_parallel(others.size(), [&](size_t i) {
    const PlanToTry& plan = others[i];
    if (auto other = unless_refused(
            [&] { return trials_.within(plan.variant, plan.policy, plan.of, limits); }))
      fit[i] = *std::move(other);
  });
  std::optional<TriedPlan> best;
  for (std::optional<TriedPlan>& other : fit)
    if (other && other->seconds < (best ? best->seconds : tried.seconds)) best = std::move(other);
  return best;
}

std::vector<TriedPlan> OffloadRefinement::descended(TriedPlan tried, const Limits& limits) const {
  constexpr int kMostSteps = 8;
  constexpr double kWorthAStep = 0.999;  // of the time before
  std::vector<TriedPlan> chain{std::move(tried)};
  bool has_room_used = true;
  for (int step = 0; step < kMostSteps; ++step) {
    const double before = chain.back().seconds;
    std::optional<TriedPlan> next = best_neighbour(chain.back(), limits);
    if (!next || next->seconds > kWorthAStep * before) {
      if (has_room_used) break;
      next = filled(chain.back(), limits).back();
      has_room_used = true;
      if (next->seconds > kWorthAStep * before) break;
    } else {
      has_room_used = false;
    }
    chain.push_back(*std::move(next));
  }
  chain.erase(chain.begin());
  return chain;
}

// Also within smaller limits: now and then lanes wait longer for each other where less moves, and more
// memory is to be no slower.
std::vector<TriedPlan> OffloadRefinement::with_room_used(const TriedPlan& tried,
                                                         const Limits& limits) const {
  const auto series = and_smaller(limits);
  std::array<std::vector<TriedPlan>, series.size()> chains;
  for_each_in_parallel(series.size(), [&](size_t i) {
    if (tried.arena.fits_in(series[i])) chains[i] = filled(tried, series[i]);
  });
  std::vector<TriedPlan> all;
  for (std::vector<TriedPlan>& chain : chains)
    for (TriedPlan& other : chain) all.push_back(std::move(other));
  return all;
}

// What was moved as a whole moves in fewer layers where there is room for the others: first what a step
// moves most often, from disk to the host before to the device, and into what that left on the host.
// Each is faster than the one before it.
std::vector<TriedPlan> OffloadRefinement::filled(TriedPlan tried, const Limits& limits) const {
  constexpr OffloadItem kItems[] = {OffloadItem::params, OffloadItem::grads, OffloadItem::optimizer,
                                    OffloadItem::master};
  constexpr double kWorthMore = 0.999;  // of the time before: then there may be room for more
  std::vector<TriedPlan> better{std::move(tried)};
  if (better[0].variant.plain.empty()) return better;
  const Room room = estimates_.room_of(better[0].variant);
  for (const Space space : {Space::host, Space::device, Space::host}) {
    for (const OffloadItem item : kItems) {
      // What moves less needs less staging, which is room for more.
      for (bool more = true; more;) {
        auto other = use_room_in(room, space, item, better.back(), limits);
        more = other && other->seconds < kWorthMore * better.back().seconds;
        if (other) better.push_back(*std::move(other));
      }
    }
  }
  return better;
}

// None where that is no faster. The last layer that the device has room for may cost more than it saves,
// and the host may have been faster with the updates of some: then they stay where they are.
std::optional<TriedPlan> OffloadRefinement::use_room_in(const Room& room, Space space,
                                                        OffloadItem item, const TriedPlan& tried,
                                                        const Limits& limits) const {
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
  std::optional<TriedPlan> best;
  for (const int64_t size : sizes) {
    for (int32_t fewer = 0; fewer <= kFewer; ++fewer) {
      const auto offload =
          room.with_nearer(tried.variant.settings.recipe.offload, item, space, size, fewer);
      if (!offload) continue;
      Variant variant = with_offload(tried.variant, *offload);
      if (!host_updates_something(variant)) continue;
      auto other = trials_.within(std::move(variant), tried.policy, tried.of, limits);
      if (!other) continue;
      if (!best || other->seconds < best->seconds) best = std::move(other);
      if (offload->moves(item)) break;
    }
  }
  if (best && best->seconds >= tried.seconds) return std::nullopt;
  return best;
}

}  // namespace snug
