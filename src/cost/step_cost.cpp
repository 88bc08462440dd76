#include "cost/step_cost.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "ir/order.h"

namespace snug {
namespace {

bool has_one_lane(const Program& program) {
  return std::ranges::all_of(program.ops,
                             [&](const Op& op) { return op.lane == program.ops.front().lane; });
}

}  // namespace

double seconds_on_lanes(const Module& module, const Program& program,
                        std::span<const double> seconds) {
  double last = 0;
  if (has_one_lane(program)) {
    for (const double s : seconds) last += s;
    return last;
  }
  const Order order(module, program);
  std::vector<double> free(static_cast<size_t>(order.lanes()));
  std::vector<double> ends(program.ops.size());
  for (size_t i = 0; i < program.ops.size(); ++i) {
    const auto op = static_cast<int32_t>(i);
    double& lane = free[static_cast<size_t>(order.lane_of(op))];
    for (const int32_t other : order.waits(op))
      lane = std::max(lane, ends[static_cast<size_t>(other)]);
    lane += seconds[i];
    ends[i] = lane;
    last = std::max(last, lane);
  }
  return last;
}

std::optional<ServedCost> served_cost(const Module& module, const CostModel& model) {
  if (model.backend() != Backend::cuda) return {};
  ServedCost slowest;
  for (const Program& program : module.programs) {
    const auto runs = static_cast<double>(runs_per_step(module, program.name));
    for (const Op& op : program.ops) {
      const Served served = served_on_gpu(module, op, model.math());
      if (served.by == Server::only || runs == 0) continue;
      if (served.by > slowest.served.by) slowest.served = served;
      slowest.seconds += runs * model.seconds(module, op);
    }
  }
  return slowest.served.by == Server::only ? std::nullopt : std::optional(slowest);
}

StepCost step_cost(const Module& module, const CostModel& model) {
  StepCost cost;
  std::vector<double> seconds;
  for (const Program& program : module.programs) {
    const auto runs = static_cast<double>(runs_per_step(module, program.name));
    if (runs == 0) continue;
    seconds.clear();
    for (const Op& op : program.ops) {
      seconds.push_back(model.seconds(module, op));
      if (!op.clone_of.empty()) cost.repeat_seconds += runs * seconds.back();
    }
    cost.step_seconds += runs * seconds_on_lanes(module, program, seconds);
  }
  return cost;
}

}  // namespace snug
