#include "ir/lifetime.h"

#include <algorithm>

namespace snug {
namespace {

// For every op: the earliest op that may still be running when it starts. Ops of the compute lane
// count as in place.
std::vector<int32_t> earliest_beside(const Order& order, size_t ops) {
  std::vector<int32_t> earliest(ops);
  for (size_t i = 0; i < ops; ++i) earliest[i] = static_cast<int32_t>(i);
  if (order.lanes() == 1) return earliest;
  const int32_t compute = order.lane_index(kComputeLane);
  for (int32_t& at : earliest) {
    const int32_t op = at;
    if (order.lane_of(op) == compute) continue;
    for (int32_t lane = 0; lane < order.lanes(); ++lane) {
      const auto ops_on = order.ops_on(lane);
      const auto next = std::ranges::upper_bound(
          ops_on, lane == order.lane_of(op) ? op - 1 : order.seen(op, lane));
      if (next != ops_on.end()) at = std::min(at, *next);
    }
  }
  return earliest;
}

// For every op: the last op of the compute lane that may start before it has ended, or itself where
// that is later.
std::vector<int32_t> latest_beside(const Order& order, size_t ops) {
  std::vector<int32_t> latest(ops);
  for (size_t i = 0; i < ops; ++i) latest[i] = static_cast<int32_t>(i);
  const int32_t compute = order.lane_index(kComputeLane);
  if (compute < 0 || order.lanes() == 1) return latest;
  const auto computes = order.ops_on(compute);
  for (int32_t lane = 0; lane < order.lanes(); ++lane) {
    if (lane == compute) continue;
    size_t done =
        0;  // computes[0..done) may start before `op` has ended: both lists only move forward
    for (int32_t op : order.ops_on(lane)) {
      while (done < computes.size() && order.seen(computes[done], lane) < op) ++done;
      if (done > 0) latest[static_cast<size_t>(op)] = std::max(op, computes[done - 1]);
    }
  }
  return latest;
}

}  // namespace

std::vector<std::optional<Lifetime>> lifetimes_of(const Module& module,
                                                  std::span<const Extent> extents) {
  std::vector<std::optional<Lifetime>> lives(module.values.size());
  for (const Program& program : module.programs) {
    const Order order(module, program, extents);
    const auto earliest = earliest_beside(order, program.ops.size());
    const auto latest = latest_beside(order, program.ops.size());
    for (size_t i = 0; i < program.ops.size(); ++i) {
      for_each_access(program.ops[i], [&](ValueId id, bool) {
        const ValueId root = extents[static_cast<size_t>(id.index)].root;
        if (module[root].shared()) return;
        auto& live = lives[static_cast<size_t>(root.index)];
        if (!live) live = {earliest[i], latest[i]};
        live->last = std::max(live->last, latest[i]);
      });
    }
  }
  return lives;
}

void compute_lifetimes(Module& module) {
  const auto lives = lifetimes_of(module, extents_of(module));
  for (size_t i = 0; i < lives.size(); ++i) module.values[i].live = lives[i];
}

}  // namespace snug
