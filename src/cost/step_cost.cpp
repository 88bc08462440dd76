#include "cost/step_cost.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <vector>

#include "ir/lifetime.h"
#include "ir/order.h"

namespace snug {
namespace {

bool has_one_lane(const Program& program) {
  return std::ranges::all_of(program.ops,
                             [&](const Op& op) { return op.lane == program.ops.front().lane; });
}

// To another space, or by this rank to others.
int64_t moved_bytes(const Module& module, const Op& op) {
  if (op.def->comm != Comm::none) return cost_of(module, op, Backend::cpu).bytes_read;
  const auto move = move_of(module, op);
  return move ? move->bytes : 0;
}

struct Busy {
  double begin = 0, end = 0;
};

std::vector<Busy> times_of(const Order& order, std::span<const double> seconds) {
  std::vector<double> free(static_cast<size_t>(order.lanes()));
  std::vector<Busy> times(seconds.size());
  for (size_t i = 0; i < seconds.size(); ++i) {
    const auto op = static_cast<int32_t>(i);
    double& lane = free[static_cast<size_t>(order.lane_of(op))];
    for (const int32_t other : order.waits(op))
      lane = std::max(lane, times[static_cast<size_t>(other)].end);
    times[i].begin = lane;
    lane += seconds[i];
    times[i].end = lane;
  }
  return times;
}

double end_of(const Order& order, std::span<const double> seconds) {
  double last = 0;
  for (const Busy& time : times_of(order, seconds)) last = std::max(last, time.end);
  return last;
}

}  // namespace

double seconds_on_lanes(const Module& module, const Program& program,
                        std::span<const double> seconds) {
  if (has_one_lane(program)) return std::accumulate(seconds.begin(), seconds.end(), 0.0);
  return end_of(Order(module, program), seconds);
}

std::vector<LaneCost> lane_costs(const Module& module, const Program& program,
                                 std::span<const double> alone, const CoreShare& share) {
  const Order order(module, program);
  const auto sharing = [&](std::vector<double> seconds) {
    return share.is_limited() ? seconds_sharing(module, program, std::move(seconds), share)
                              : seconds;
  };
  const std::vector<double> seconds = sharing({alone.begin(), alone.end()});
  const double whole = end_of(order, seconds);
  std::vector<LaneCost> lanes;
  for (int32_t l = 0; l < order.lanes(); ++l) {
    LaneCost& lane = lanes.emplace_back(LaneCost{.lane = std::string(order.lane_name(l))});
    std::vector<double> without(alone.begin(), alone.end());
    for (const int32_t at : order.ops_on(l)) {
      const auto i = static_cast<size_t>(at);
      lane.busy_seconds += seconds[i];
      without[i] = 0;
      lane.moved_bytes += moved_bytes(module, program.ops[i]);
    }
    lane.exposed_seconds =
        std::clamp(whole - end_of(order, sharing(std::move(without))), 0.0, lane.busy_seconds);
  }
  return lanes;
}

std::vector<LaneCost> lane_costs(const Module& module, const CostModel& model) {
  std::vector<LaneCost> lanes{{.lane = std::string(kComputeLane)}};
  for (const Program& program : module.programs) {
    const int64_t runs = runs_per_step(module, program.name);
    if (runs == 0) continue;
    for (const LaneCost& one : lane_costs(module, program, model.seconds_alone(module, program),
                                          model.cores().value_or(CoreShare{}))) {
      auto lane = std::ranges::find(lanes, one.lane, &LaneCost::lane);
      if (lane == lanes.end()) lane = lanes.insert(lane, {.lane = one.lane});
      lane->busy_seconds += static_cast<double>(runs) * one.busy_seconds;
      lane->exposed_seconds += static_cast<double>(runs) * one.exposed_seconds;
      lane->moved_bytes += runs * one.moved_bytes;
    }
  }
  return lanes;
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
  return step_cost(module, model, Orders(module));
}

StepCost step_cost(const Module& module, const CostModel& model, const Orders& orders) {
  StepCost cost;
  for (size_t p = 0; p < module.programs.size(); ++p) {
    const Program& program = module.programs[p];
    const auto runs = static_cast<double>(runs_per_step(module, program.name));
    if (runs == 0) continue;
    const std::vector<double> seconds = model.seconds(module, program);
    for (size_t i = 0; i < seconds.size(); ++i)
      if (!program.ops[i].clone_of.empty()) cost.repeat_seconds += runs * seconds[i];
    cost.step_seconds += runs * end_of(orders.of(p), seconds);
  }
  return cost;
}

std::vector<Span> predicted_spans(const Module& module, const CostModel& model) {
  std::map<std::string, std::vector<Busy>> known;  // by program
  const auto times = [&](const Program& program) -> const std::vector<Busy>& {
    const auto [found, fresh] = known.try_emplace(program.name);
    if (fresh) found->second = times_of(Order(module, program), model.seconds(module, program));
    return found->second;
  };
  std::vector<Span> spans;
  double start = 0;
  int32_t run = 0;
  for (const Repeat& region : module.step) {
    for (int64_t i = 0; i < region.times; ++i) {
      for (const std::string& name : region.programs) {
        const Program& program = module.program(name);
        double end = start;
        for (size_t op = 0; op < program.ops.size(); ++op) {
          const Busy& busy = times(program)[op];
          spans.push_back({.origin = SpanOrigin::predicted,
                           .run = run,
                           .program = module.program_index(name),
                           .op = static_cast<int32_t>(op),
                           .lane = program.ops[op].lane,
                           .begin = start + busy.begin,
                           .end = start + busy.end});
          end = std::max(end, spans.back().end);
        }
        start = end;
        ++run;
      }
    }
  }
  return spans;
}

}  // namespace snug
