#include "search/layer_costs.h"

#include <algorithm>
#include <numeric>

#include "base/units.h"
#include "ir/lifetime.h"
#include "placement/breakdown.h"
#include "placement/space_values.h"

namespace snug {
namespace {

std::vector<Block> blocks_in(const Module& module, int32_t program, Space space) {
  std::vector<Block> blocks;
  for (const Value& value : module.values) {
    if (!resides_local(value, space, program)) continue;
    blocks.push_back(block_of(value));
    blocks.back().bytes = round_up(blocks.back().bytes, alignment_of(space));
  }
  return blocks;
}

}  // namespace

int64_t most_live(const Module& module, int32_t program, Space space) {
  const std::vector<int64_t> live = live_profile(blocks_in(module, program, space));
  return live.empty() ? 0 : *std::ranges::max_element(live);
}

const Program& training_program(const Module& module) {
  for (auto p = module.programs.rbegin(); p != module.programs.rend(); ++p) {
    if (is_training(p->role)) return *p;
  }
  throw internal_error("module '{}' has no training program", module.name);
}

LayerCosts::LayerCosts(const Module& module, const CostModel& model) {
  const Program& program = training_program(module);
  locate(program);
  const auto places = static_cast<size_t>(layers_) + 2;
  kept_.resize(places);
  live_.resize(places);
  seconds_.resize(places);

  const std::vector<Block> blocks =
      blocks_in(module, module.program_index(program.name), Space::device);
  const std::vector<int64_t> live = live_profile(blocks);
  const std::vector<double> seconds = model.seconds(module, program);
  for (size_t at = 0; at < program.ops.size(); ++at) {
    const size_t place = place_[at];
    if (at < live.size()) live_[place] = std::max(live_[place], live[at]);
    // What other lanes take is hidden, or bounds the step as a whole.
    if (program.ops[at].lane == kComputeLane) seconds_[place] += seconds[at];
  }
  for (const Block& block : blocks) {
    const auto last = static_cast<size_t>(block.last);
    const bool kept = program.ops[static_cast<size_t>(block.first)].phase == Phase::forward &&
                      program.ops[last].phase != Phase::forward;
    if (kept) kept_[place_[last]] += block.bytes;
  }
  for (size_t p = 0; p < module.programs.size(); ++p) {
    if (is_training(module.programs[p].role)) continue;
    other_programs_ = std::max(other_programs_, most_live(module, static_cast<int32_t>(p)));
  }
}

// Ops of no layer come before the layers or after them, by when they run. Prefetches for backward,
// and updates that are folded into forward, are on the way there.
void LayerCosts::locate(const Program& program) {
  for (const Op& op : program.ops) layers_ = std::max(layers_, op.layer + 1);
  bool forward = true;
  bool met_a_layer = false;
  for (const Op& op : program.ops) {
    if (forward && op.phase == Phase::backward && op.lane == kComputeLane)
      forward = met_a_layer = false;
    met_a_layer |= op.layer >= 0;
    const int32_t outside = met_a_layer == forward ? layers_ : -1;
    place_.push_back(static_cast<size_t>((op.layer >= 0 ? op.layer : outside) + 1));
  }
}

Costs LayerCosts::of(int32_t first, int32_t last) const {
  const auto begin = first + 1;
  const auto end = last + 2;
  const int64_t below = std::accumulate(kept_.begin(), kept_.begin() + begin, int64_t{0});
  return {.kept = std::accumulate(kept_.begin() + begin, kept_.begin() + end, int64_t{0}),
          .working = *std::max_element(live_.begin() + begin, live_.begin() + end) - below,
          .seconds = std::accumulate(seconds_.begin() + begin, seconds_.begin() + end, 0.0)};
}

}  // namespace snug
