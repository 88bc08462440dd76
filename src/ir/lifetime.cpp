#include "ir/lifetime.h"

#include <algorithm>
#include <numeric>

namespace snug {
namespace {

// Does it use bytes that others have at other times? Values that are shared always have theirs.
bool uses_transient_bytes(const Module& module, const Op& op, std::span<const Extent> extents) {
  bool any = false;
  for_each_access(op, [&](ValueId id, bool) {
    any = any || !module[extents[static_cast<size_t>(id.index)].root].shared();
  });
  return any;
}

// By lane: its ops that use transient bytes.
std::vector<std::vector<int32_t>> users_on_lanes(const Module& module, const Program& program,
                                                 const Order& order,
                                                 std::span<const Extent> extents) {
  std::vector<std::vector<int32_t>> users(static_cast<size_t>(order.lanes()));
  for (int32_t lane = 0; lane < order.lanes(); ++lane) {
    for (const int32_t op : order.ops_on(lane)) {
      if (uses_transient_bytes(module, program.ops[static_cast<size_t>(op)], extents))
        users[static_cast<size_t>(lane)].push_back(op);
    }
  }
  return users;
}

// For every op: the earliest op with transient bytes that may still be running when it starts. Ops of
// the compute lane count as in place.
std::vector<int32_t> earliest_overlap(const Module& module, const Program& program,
                                      const Order& order, std::span<const Extent> extents) {
  std::vector<int32_t> earliest(program.ops.size());
  std::iota(earliest.begin(), earliest.end(), 0);
  if (order.lanes() == 1) return earliest;
  const int32_t compute = order.lane_index(kComputeLane);
  const auto users = users_on_lanes(module, program, order, extents);
  for (int32_t& at : earliest) {
    const int32_t op = at;
    if (order.lane_of(op) == compute) continue;
    for (int32_t lane = 0; lane < order.lanes(); ++lane) {
      const std::vector<int32_t>& there = users[static_cast<size_t>(lane)];
      const auto next = std::ranges::upper_bound(
          there, lane == order.lane_of(op) ? op - 1 : order.seen(op, lane));
      if (next != there.end()) at = std::min(at, *next);
    }
  }
  return earliest;
}

bool makes_new_bytes(const Module& module, const Op& op) {
  return op.workspace.valid() ||
         std::ranges::any_of(op.outputs, [&](ValueId id) { return module[id].owns_bytes(); });
}

// For every op: the last op of the compute lane that makes new bytes and may start before it has
// ended, or itself where that is later.
std::vector<int32_t> latest_overlap(const Module& module, const Program& program,
                                    const Order& order) {
  std::vector<int32_t> latest(program.ops.size());
  std::iota(latest.begin(), latest.end(), 0);
  const int32_t compute = order.lane_index(kComputeLane);
  if (compute < 0 || order.lanes() == 1) return latest;
  std::vector<int32_t> makers;
  for (int32_t op : order.ops_on(compute)) {
    if (makes_new_bytes(module, program.ops[static_cast<size_t>(op)])) makers.push_back(op);
  }
  for (int32_t lane = 0; lane < order.lanes(); ++lane) {
    if (lane == compute) continue;
    // makers[0..done) may start before `op` has ended: along a lane this only moves forward.
    size_t done = 0;
    for (int32_t op : order.ops_on(lane)) {
      while (done < makers.size() && order.seen(makers[done], lane) < op) ++done;
      if (done > 0) latest[static_cast<size_t>(op)] = std::max(op, makers[done - 1]);
    }
  }
  return latest;
}

}  // namespace

std::vector<std::optional<Lifetime>> lifetimes_of(const Module& module, const Orders& orders) {
  const std::span<const Extent> extents = orders.extents();
  std::vector<std::optional<Lifetime>> lives(module.values.size());
  for (size_t p = 0; p < module.programs.size(); ++p) {
    const Program& program = module.programs[p];
    const Order& order = orders.of(p);
    const auto earliest = earliest_overlap(module, program, order, extents);
    const auto latest = latest_overlap(module, program, order);
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

Orders compute_lifetimes(Module& module) {
  Orders orders(module);
  const auto lives = lifetimes_of(module, orders);
  for (size_t i = 0; i < lives.size(); ++i) module.values[i].live = lives[i];
  return orders;
}

}  // namespace snug
