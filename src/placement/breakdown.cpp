#include "placement/breakdown.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "base/units.h"
#include "ir/tensor_cut.h"
#include "ops/quantize/format.h"
#include "placement/space_values.h"

namespace snug {
namespace {

constexpr size_t kLargest = 12;

size_t index_of(Category category) { return static_cast<size_t>(category); }
size_t index_of(Phase phase) { return static_cast<size_t>(phase); }

// Does it hold bytes of `space` during op `at` of `program`?
bool lives_at(const Value& value, Space space, int32_t program, int64_t at) {
  if (resides_shared(value, space)) return true;
  if (!resides_local(value, space, program)) return false;
  const Block life = block_of(value);
  return life.first <= at && at <= life.last;
}

CategoryBytes shared_bytes(const Module& module, Space space) {
  CategoryBytes bytes{};
  for (const Value& value : module.values) {
    if (resides_shared(value, space)) bytes[index_of(value.category)] += value.storage_bytes();
  }
  return bytes;
}

PlacementStats placement_of(const Module& module, Space space) {
  int64_t shared_end = 0;
  int64_t local_end = 0;
  for (const Value& value : module.values) {
    if (!resides(value, space)) continue;
    int64_t& end = value.shared() ? shared_end : local_end;
    end = std::max(end, *value.offset + value.storage_bytes());
  }
  PlacementStats stats;
  stats.arena_bytes = module.arena_bytes[static_cast<int>(space)];
  stats.transient_arena_bytes =
      std::max<int64_t>(0, local_end - round_up(shared_end, alignment_of(space)));
  return stats;
}

Peak peak_at(const Program& program, size_t at) {
  const Op& op = program.ops[at];
  return {program.name, static_cast<int64_t>(at), op.name, op.layer, op.phase};
}

std::vector<OwnedBytes> largest_at(const Module& module, Space space, int32_t program, int64_t at) {
  std::vector<OwnedBytes> live;
  for (const Value& value : module.values) {
    if (!lives_at(value, space, program, at)) continue;
    live.push_back({value.name, value.type, value.category, value.layer, value.storage_bytes()});
  }
  std::stable_sort(live.begin(), live.end(),
                   [](const OwnedBytes& a, const OwnedBytes& b) { return a.bytes > b.bytes; });
  live.resize(std::min(live.size(), kLargest));
  return live;
}

SpaceBreakdown breakdown_of_space(const Module& module, Space space) {
  SpaceBreakdown memory;
  memory.placement = placement_of(module, space);
  memory.breakdown = memory.category_peaks = shared_bytes(module, space);
  const int64_t shared = total(memory.breakdown);
  int64_t most = shared;
  int32_t peak_program = -1;
  for (size_t p = 0; p < module.programs.size(); ++p) {
    const auto live = timeline(module, static_cast<int32_t>(p), space);
    for (size_t at = 0; at < live.size(); ++at) {
      for (size_t c = 0; c < live[at].size(); ++c) {
        memory.category_peaks[c] = std::max(memory.category_peaks[c], live[at][c]);
      }
      const int64_t now = total(live[at]);
      int64_t& in_phase = memory.phase_peaks[index_of(module.programs[p].ops[at].phase)];
      in_phase = std::max(in_phase, now);
      if (peak_program >= 0 && now <= most) continue;
      most = now;
      peak_program = static_cast<int32_t>(p);
      memory.breakdown = live[at];
      memory.peak = peak_at(module.programs[p], at);
    }
  }
  memory.placement.max_live_bytes = most;
  memory.placement.transient_max_live_bytes = most - shared;
  memory.gaps = memory.placement.arena_bytes - most;
  memory.largest = largest_at(module, space, peak_program, memory.peak.op_index);
  return memory;
}

ProgramWork work_of_program(const Module& module, const Program& program, Backend backend) {
  ProgramWork memory{program.name, runs_per_step(module, program.name),
                     static_cast<int64_t>(program.ops.size())};
  for (const Op& op : program.ops) {
    const Cost cost = cost_of(module, op, backend);
    memory.flops[index_of(op.phase)] += static_cast<double>(cost.flops);
    memory.bytes_moved[index_of(op.phase)] +=
        static_cast<double>(cost.bytes_read) + static_cast<double>(cost.bytes_written);
  }
  return memory;
}

void add_shared_value(const Value& value, LayerBreakdown& layer) {
  const int64_t bytes = value.storage_bytes();
  if (value.category == Category::params) layer.params += bytes;
  if (value.category == Category::grads) layer.grads += bytes;
  if (value.category == Category::optimizer || value.category == Category::master)
    layer.optimizer += bytes;
}

std::vector<LayerBreakdown> breakdown_of_layers(const Module& module, const Peak& peak,
                                                Backend backend) {
  const int32_t training = module.program_index(ProgramRole::training_first);
  const int32_t peak_program = module.program_index(peak.program);
  std::map<int32_t, LayerBreakdown> layers;
  for (const Value& value : module.values) {
    if (!resides(value, value.space)) continue;
    LayerBreakdown& layer = layers[value.layer];
    if (value.shared()) add_shared_value(value, layer);
    if (value.program == training && is_kept(module, value)) layer.kept += value.storage_bytes();
    if (lives_at(value, Space::device, peak_program, peak.op_index))
      layer.at_peak += value.storage_bytes();
  }
  if (training >= 0) {
    for (const Op& op : module.programs[static_cast<size_t>(training)].ops) {
      if (op.phase != Phase::forward) continue;
      layers[op.layer].forward_flops += static_cast<double>(cost_of(module, op, backend).flops);
    }
  }
  std::vector<LayerBreakdown> list;
  for (auto& [index, layer] : layers) {
    layer.layer = index;
    list.push_back(layer);
  }
  return list;
}

// Of all ranks.
int64_t parameters_in(const Module& module, const Value& value) {
  const Stored stored = value.param ? value.param->stored : Stored::plain;
  return ops::stored_parameters(stored, logical_shape(module, value).elements());
}

void count_params(const Module& module, MemoryBreakdown& memory) {
  for (const Value& value : module.values) {
    if (value.category != Category::params || !resides_shared(value, value.space)) continue;
    const bool trainable = value.param == nullptr || value.param->trainable;
    (trainable ? memory.trainable_params : memory.frozen_params) += parameters_in(module, value);
  }
}

void add_to_step(const ProgramWork& run, MemoryBreakdown& memory) {
  const auto times = static_cast<double>(run.runs_per_step);
  for (size_t p = 0; p < kPhases; ++p) {
    memory.step_flops[p] += run.flops[p] * times;
    memory.step_bytes_moved[p] += run.bytes_moved[p] * times;
  }
}

}  // namespace

int64_t total(const CategoryBytes& bytes) {
  return std::accumulate(bytes.begin(), bytes.end(), int64_t{0});
}

SpaceBytes arenas_of(const MemoryBreakdown& memory) {
  SpaceBytes bytes;
  for (const Space space : kAllSpaces) bytes[space] = memory[space].placement.arena_bytes;
  return bytes;
}

bool LayerBreakdown::same_costs(const LayerBreakdown& o) const {
  return params == o.params && grads == o.grads && optimizer == o.optimizer && kept == o.kept &&
         at_peak == o.at_peak && forward_flops == o.forward_flops;
}

bool is_kept(const Module& module, const Value& value) {
  if (value.shared() || !resides(value, value.space)) return false;
  const auto& ops = module.programs[static_cast<size_t>(value.program)].ops;
  const Block life = block_of(value);
  return ops[static_cast<size_t>(life.first)].phase == Phase::forward &&
         ops[static_cast<size_t>(life.last)].phase == Phase::backward;
}

std::vector<CategoryBytes> timeline(const Module& module, int32_t program, Space space) {
  const size_t instants = module.programs[static_cast<size_t>(program)].ops.size();
  std::vector<CategoryBytes> live(instants + 1);
  live[0] = shared_bytes(module, space);
  for (const Value& value : module.values) {
    if (!resides_local(value, space, program)) continue;
    const Block life = block_of(value);
    live[static_cast<size_t>(life.first)][index_of(value.category)] += life.bytes;
    live[static_cast<size_t>(life.last) + 1][index_of(value.category)] -= life.bytes;
  }
  for (size_t at = 1; at < live.size(); ++at) {
    for (size_t c = 0; c < live[at].size(); ++c) live[at][c] += live[at - 1][c];
  }
  live.pop_back();
  return live;
}

MemoryBreakdown memory_breakdown(const Module& placed, Backend backend) {
  if (placed.level != Level::placed) {
    throw internal_error("module '{}' is at level {}: only a placed one has a memory breakdown",
                         placed.name, name_of(placed.level));
  }
  MemoryBreakdown memory;
  for (size_t s = 0; s < memory.spaces.size(); ++s) {
    memory.spaces[s] = breakdown_of_space(placed, static_cast<Space>(s));
    const CategoryBytes shared = shared_bytes(placed, static_cast<Space>(s));
    for (size_t c = 0; c < shared.size(); ++c) memory.shared[c] += shared[c];
  }
  count_params(placed, memory);
  memory.layers = breakdown_of_layers(placed, memory.device().peak, backend);
  for (const Program& program : placed.programs) {
    memory.programs.push_back(work_of_program(placed, program, backend));
    add_to_step(memory.programs.back(), memory);
  }
  return memory;
}

}  // namespace snug
