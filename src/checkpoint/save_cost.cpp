#include "checkpoint/save_cost.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "base/error.h"
#include "base/number.h"
#include "base/units.h"
#include "checkpoint/run_state.h"
#include "cost/step_cost.h"
#include "ir/order.h"
#include "runtime/value_stream.h"

namespace snug {
namespace {

// Calls visit(value, program, op) where a step first changes a value that is saved.
template <typename Visit>
void for_each_first_change(const Module& module, const Visit& visit) {
  std::set<ValueId> left;
  for (const ValueId id : run_state(module)) left.insert(id);
  for (const Repeat& region : module.step) {
    for (const std::string& name : region.programs) {
      const Program& program = module.program(name);
      for (size_t at = 0; at < program.ops.size(); ++at) {
        for (const ValueId id : program.ops[at].outputs) {
          const ValueId root = module.root(id);
          if (left.erase(root) > 0) visit(root, program, at);
        }
      }
    }
  }
}

// When a step first changes each value, in seconds after its beginning.
std::map<ValueId, double> change_times(const Module& module, const CostModel& model) {
  struct Times {
    double begins = 0;          // of the program's first run
    double longer = 1;          // than its lanes' ops together: below one, they run side by side
    std::vector<double> until;  // the ops before, together
  };
  std::map<std::string, Times> programs;
  double now = 0;
  for (const Repeat& region : module.step) {
    double once = 0;
    for (const std::string& name : region.programs) {
      const Program& program = module.program(name);
      const std::vector<double> seconds = model.seconds(module, program);
      const double takes = seconds_on_lanes(module, program, seconds);
      Times times{.begins = now + once, .until = std::vector<double>(seconds.size())};
      std::exclusive_scan(seconds.begin(), seconds.end(), times.until.begin(), 0.0);
      if (const double sum = std::accumulate(seconds.begin(), seconds.end(), 0.0); sum > 0)
        times.longer = takes / sum;
      programs.try_emplace(name, std::move(times));
      once += takes;
    }
    now += once * static_cast<double>(region.times);
  }
  std::map<ValueId, double> changes;
  for_each_first_change(module, [&](ValueId id, const Program& program, size_t op) {
    const Times& times = programs.at(program.name);
    changes[id] = times.begins + times.longer * times.until[op];
  });
  return changes;
}

bool is_staged(const Module& module, const CostModel& model, ValueId id) {
  return model.backend() == Backend::cuda && module[id].space == Space::device;
}

// By how much an update waits, where each value is read when its turn comes: what is on the device
// as fast as the link copies it while staging has room, all else as fast as the disk takes it.
double wait_of_updates(const Module& module, std::span<const ValueId> saved, const CostModel& model,
                       int64_t staging) {
  const Surroundings& around = model.surroundings();
  const std::map<ValueId, double> changes = change_times(module, model);
  double waits = 0;
  int64_t written = 0, copied = 0;
  for (const ValueId id : saved) {
    const int64_t bytes = without_padding(module, id).bytes;
    written += bytes;
    double read = static_cast<double>(written) / around.disk.write;
    if (is_staged(module, model, id)) {
      copied += bytes;
      read = std::max(static_cast<double>(copied) / around.link.out,
                      static_cast<double>(written - staging) / around.disk.write);
    }
    if (const auto change = changes.find(id); change != changes.end())
      waits = std::max(waits, read - change->second);
  }
  return waits;
}

int64_t staging_of(const PlannedRun& planned, std::span<const ValueId> saved) {
  const Resolved& run = planned.run;
  const Module& module = planned.plan.module;
  std::vector<ValueId> staged;
  for (const ValueId id : saved)
    if (is_staged(module, run.cost_model, id)) staged.push_back(id);
  const SpaceBytes left = run.limits().left_by(arenas_of(module));
  // Its page tables are on the device, where half of what is left stays free: a context may be
  // larger than the rule.
  constexpr int64_t kPagesOfTable = 512;
  int64_t most = left[Space::host];
  if (run.budget) most = std::min(most, left[Space::device] / 2 * kPagesOfTable);
  const int64_t staging = std::min(ValueStream::staging_for(module, staged), most);
  return staging < 2 * ValueStream::kOwnStaging ? 0 : staging;
}

}  // namespace

std::vector<ValueId> state_to_save(const Module& module, const Recipe& recipe) {
  std::vector<ValueId> order;
  std::set<ValueId> placed;
  for_each_first_change(module, [&](ValueId id, const Program&, size_t) {
    order.push_back(id);
    placed.insert(id);
  });
  for (const ValueId id : run_state(module))
    if (!placed.contains(id)) order.push_back(id);
  std::ranges::stable_sort(order, std::greater{},
                           [&](ValueId id) { return size_of(module[id].type.dtype); });
  return saved_by_rank(module, saved_by_stage(module, order, recipe.mesh), recipe.sharding,
                       recipe.mesh);
}

SaveCost save_cost(const PlannedRun& planned) {
  const Resolved& run = planned.run;
  const Module& module = planned.plan.module;
  const std::vector<ValueId> saved = state_to_save(module, run.recipe);
  SaveCost cost{.interval = run.options.save_every};
  for (const ValueId id : saved) cost.bytes += without_padding(module, id).bytes;
  cost.disk_seconds = static_cast<double>(cost.bytes) / run.cost_model.surroundings().disk.write;
  if (cost.interval.none() || run.options.save_sync) {
    cost.waits_seconds = cost.disk_seconds;
    return cost;
  }
  cost.staging = staging_of(planned, saved);
  cost.waits_seconds = wait_of_updates(module, saved, run.cost_model, cost.staging);
  // One at a time: where the next is due before, it waits for this one.
  const double between =
      cost.interval.steps > 0
          ? static_cast<double>(cost.interval.steps) * planned.step_seconds + cost.waits_seconds
          : cost.interval.seconds;
  cost.waits_seconds += std::max(0.0, cost.disk_seconds - between);
  return cost;
}

}  // namespace snug
