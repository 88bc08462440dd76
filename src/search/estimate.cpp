#include "search/estimate.h"

#include <algorithm>
#include <set>

#include "base/units.h"
#include "compile/compile.h"
#include "cost/step_cost.h"
#include "passes/updates.h"
#include "placement/breakdown.h"
#include "placement/space_values.h"
#include "search/lane_sums.h"

namespace snug {
namespace {

constexpr int32_t kDepth = 3;

// Of what lanes wait for each other at a prefetch distance of one layer: so much is left, at best, at
// larger ones. A shallow model does not show it; whole ones of the 1.5B and the 7B left 0.5 to 1.
constexpr double kLeftToWait = 0.5;

SpaceBytes shared_bytes(const Value& value) {
  SpaceBytes bytes;
  if (resides_shared(value, value.space))
    bytes[value.space] = round_up(value.storage_bytes(), alignment_of(value.space));
  return bytes;
}

SpaceBytes most_live_of_all(const Module& module) {
  SpaceBytes most;
  for (size_t p = 0; p < module.programs.size(); ++p) {
    for (const Space space : kAllSpaces)
      most[space] = std::max(most[space], most_live(module, static_cast<int32_t>(p), space));
  }
  return most;
}

// An op's operands are live while it runs, whatever produced them: those on the device.
int64_t operand_bytes(const Module& module, const Op& op) {
  std::set<int32_t> roots;
  int64_t bytes = 0;
  const auto add = [&](ValueId id) {
    if (!id.valid()) return;
    const ValueId root = module.root(id);
    if (module[root].shared() || module[root].space != Space::device ||
        !roots.insert(root.index).second)
      return;
    bytes += round_up(module[root].storage_bytes(), alignment_of(Space::device));
  };
  for (const ValueId id : op.inputs) add(id);
  for (const ValueId id : op.outputs) add(id);
  add(op.workspace);
  return bytes;
}

void leave_out(Module& module, ProgramRole role) {
  for (Program& program : module.programs)
    if (program.role == role) program.ops.clear();
}

// A shallow step says what all policies have in common.
Variant without_recompute(Variant variant) {
  RecomputePolicy& policy = variant.settings.recipe.recompute;
  if (policy.kind != RecomputePolicy::Kind::full) policy = {};
  return variant;
}

// What the values of a program take together, without what is on its way: all of it is there at once.
SpaceBytes kept_offloaded(const Module& module) {
  std::vector<SpaceBytes> by_program(module.programs.size());
  for (const Value& value : module.values) {
    if (value.shared() || !value.owns_bytes() || value.space == Space::device ||
        value.category == Category::staging || value.program < 0)
      continue;
    by_program[static_cast<size_t>(value.program)][value.space] +=
        round_up(value.storage_bytes(), alignment_of(value.space));
  }
  SpaceBytes most;
  for (const SpaceBytes& bytes : by_program) most = max(most, bytes);
  return most;
}

// Shared bytes of the whole stack, given a value of the shallow one.
SpaceBytes whole_shared_bytes(const Value& value, const Variant& variant, int32_t depth) {
  SpaceBytes bytes;
  const int64_t one = shared_bytes(value)[value.space];
  const auto item = offload_item(value.category);
  const Offload& offload = variant.settings.recipe.offload;
  const int64_t times = times_like(value.layer, depth, variant.stack.layers);
  if (!item || value.layer == kNoLayer) {
    bytes[item ? offload.space_of(*item, value.layer) : value.space] = one * times;
    return bytes;
  }
  for (int32_t layer = 0; layer < variant.stack.layers; ++layer) {
    if (layer_like(layer, depth, variant.stack.layers) == value.layer)
      bytes[offload.space_of(*item, layer)] += one;
  }
  return bytes;
}

// What names layers counts for them, and here for all of them.
Offload in_all_layers(Offload offload) {
  std::erase_if(offload.rules, [rules = offload.rules](const Offload::Rule& rule) {
    return rule.layers.empty() && std::ranges::any_of(rules, [&](const Offload::Rule& other) {
             return other.item == rule.item && !other.layers.empty();
           });
  });
  for (Offload::Rule& rule : offload.rules) rule.layers.clear();
  return offload;
}

// The most bytes at an instant of the training program, at full depth: while a layer runs, what the
// layers below it keep is there, too (layer_costs.h).
int64_t transient_at(const LayerCosts& costs, int32_t layers) {
  int64_t below = costs.before().kept;
  int64_t transient = costs.before().working;
  for (int32_t l = 0; l < layers; ++l) {
    const int32_t like = layer_like(l, costs.layers(), layers);
    const Costs layer = costs.of(like, like);
    transient = std::max(transient, below + layer.working);
    below += layer.kept;
  }
  return std::max(transient, below + costs.after().working);
}

}  // namespace

bool no_worse(const Estimate& a, const Estimate& b) {
  const auto within = [](const Costs& x, const Costs& y) {
    return x.kept <= y.kept && x.working <= y.working;
  };
  const auto off_device = [](SpaceBytes bytes) {
    bytes[Space::device] = 0;
    return bytes;
  };
  return a.persistent.fits_in(b.persistent) && a.other_programs <= b.other_programs &&
         off_device(a.transient).fits_in(off_device(b.transient)) &&
         a.compute_seconds <= b.compute_seconds && a.other_lanes <= b.other_lanes &&
         a.forward_seconds <= b.forward_seconds && within(a.before, b.before) &&
         within(a.layer, b.layer) && within(a.after, b.after);
}

// Where some layers' values move: with all of them and with none, and in between by their share.
Estimate Estimates::part_of_body(const Variant& variant) {
  Variant all = variant, none = variant;
  all.settings.recipe.offload = in_all_layers(variant.settings.recipe.offload);
  std::erase_if(none.settings.recipe.offload.rules,
                [](const Offload::Rule& rule) { return !rule.layers.empty(); });
  double all_moved = 0, rules = 0;  // by rule: the share of layers that it moves
  double kept = 0;                  // of what is kept for backward
  for (const Offload::Rule& rule : variant.settings.recipe.offload.rules) {
    if (rule.layers.empty()) continue;
    double moved = 0;
    for (const LayerRange& range : rule.layers) moved += range.last - range.first + 1;
    if (rule.item == OffloadItem::activations) kept += moved / variant.stack.layers;
    all_moved += moved;
    rules += variant.stack.layers;
  }
  const double share = all_moved / rules;
  Estimate s = body_of(all);
  const Estimate& least = body_of(none);
  const auto between = [&](double Estimate::*part) {
    s.*part = least.*part + share * (s.*part - least.*part);
  };
  for (const auto part : {&Estimate::compute_seconds, &Estimate::other_lanes, &Estimate::waiting,
                          &Estimate::forward_seconds})
    between(part);
  for (const Space space : {Space::host, Space::disk}) {
    const auto more = static_cast<double>(s.transient[space] - least.transient[space]);
    s.transient[space] = least.transient[space] + static_cast<int64_t>(kept * more);
  }
  s.seconds = s.least_seconds = s.seconds_with(0);
  s.persistent = {};
  const int32_t depth = variant.stack.depth(kDepth);
  for (const Value& value : laid_out(without_recompute(all), depth).module.values)
    s.persistent = s.persistent + whole_shared_bytes(value, variant, depth);
  return s;
}

const Estimate& Estimates::body_of(const Variant& variant) {
  return bodies_.of(body_key(variant.settings), [&] {
    const auto& rules = variant.settings.recipe.offload.rules;
    const bool in_part =
        std::ranges::any_of(rules, [](const auto& rule) { return !rule.layers.empty(); });
    return in_part ? part_of_body(variant) : make_body(variant);
  });
}

// Of the whole stack: a layer more takes what the last one took, and keeps what it kept. What is on its way
// is as much for many layers as for few.
Estimates::Lanes Estimates::lanes_of(const Variant& variant, const LaidOut& shallow,
                                     int32_t depth) {
  const auto seconds_of = [&](const LaidOut& step) {
    return step_cost(step.module, variant.cost_model, step.orders).step_seconds;
  };
  Lanes whole{seconds_of(shallow), most_live_of_all(shallow.module)};
  const int32_t more = variant.stack.layers - depth;
  if (more == 0) return whole;
  const LaidOut deeper = laid_out(without_recompute(variant), depth + 1);
  whole.seconds += more * (seconds_of(deeper) - whole.seconds);
  const SpaceBytes kept = kept_offloaded(deeper.module) - kept_offloaded(shallow.module);
  for (const Space s : kAllSpaces) whole.transient[s] += more * kept[s];
  return whole;
}

Estimate Estimates::make_body(const Variant& variant) {
  Estimate s;
  const int32_t depth = variant.stack.depth(kDepth);
  const LaidOut shallow = laid_out(without_recompute(variant), depth);
  const Module& module = shallow.module;
  const auto times = [&](int32_t layer) { return times_like(layer, depth, variant.stack.layers); };
  for (const Value& value : module.values)
    s.persistent = s.persistent + whole_shared_bytes(value, variant, depth);
  const Program& training = training_program(module);
  LaneSums lanes;
  for (const Program& program : module.programs) {
    const auto runs = static_cast<double>(runs_per_step(module, program.name));
    if (runs == 0) continue;
    const std::vector<double> each = variant.cost_model.seconds(module, program);
    for (size_t i = 0; i < program.ops.size(); ++i) {
      const Op& op = program.ops[i];
      const double seconds = runs * each[i];
      lanes.add(op.lane, static_cast<double>(times(op.layer)) * seconds);
      if (op.layer == depth / 2 && op.phase == Phase::forward && op.lane == kComputeLane)
        s.forward_seconds += seconds;
      if (&program == &training)
        s.least_transient = max(s.least_transient, on_device(operand_bytes(module, op)));
    }
  }
  s.compute_seconds = lanes.compute();
  s.other_lanes = lanes.other();
  if (s.other_lanes > 0) {
    const Lanes whole = lanes_of(variant, shallow, depth);
    s.transient = whole.transient;
    s.waiting = std::max(0.0, whole.seconds - s.seconds_with(0));
  }
  s.seconds = s.least_seconds = s.seconds_with(0);
  const LayerCosts costs(module, variant.cost_model);
  s.before = costs.before();
  s.layer = costs.of(depth / 2, depth / 2);
  s.after = costs.after();
  s.other_programs = costs.other_programs();
  s.transient[Space::device] = transient_at(costs, variant.stack.layers);
  return s;
}

const Module& Estimates::parameters_of(const Variant& variant) {
  return parameters_.of(parameter_key(variant.settings), [&] {
    Module module = compile("update", variant.stack.whole(), variant.settings.recipe,
                            CompilePhase::differentiate);
    module.programs.clear();
    sweep_values(module);
    return module;
  });
}

// One that is folded into forward is flushed so after the last step.
const Estimates::Update& Estimates::update_of(const Variant& variant) {
  return updates_.of(update_key(variant.settings), [&] {
    Update update;
    Module module = parameters_of(variant);
    const size_t known = module.values.size();
    Recipe recipe = variant.settings.recipe;
    recipe.fold_update = false;
    recipe.step_only = !recipe.offload.none();
    continue_compile(module, recipe, CompilePhase::ranks, CompilePhase::offload);
    const Orders orders = lay_out(module, recipe);
    for (size_t i = known; i < module.values.size(); ++i)
      update.shared = update.shared + shared_bytes(module.values[i]);
    update.transient = most_live_of_all(module);
    update.seconds = step_cost(module, variant.cost_model, orders).step_seconds;
    update.room = Room(module);
    return update;
  });
}

Room Estimates::room_of(Variant variant) {
  Recipe& recipe = variant.settings.recipe;
  recipe.offload = {};
  recipe.host_update = {};
  const bool carries = recipe.carries_gradients();
  recipe.update_in_backward = false;
  Room room = update_of(variant).room;
  if (!carries) room.leave_out(OffloadItem::grads);
  return room;
}

Estimate Estimates::of(const Variant& variant) {
  Estimate s = body_of(variant);
  if (variant.ahead_is_open && !variant.settings.recipe.offload.none()) {
    s.waiting *= kLeftToWait;
    s.seconds = s.least_seconds = s.seconds_with(0);
  }
  if (variant.settings.recipe.compress != CompressKind::none) {
    Variant bare = variant;
    bare.settings.recipe.compress = CompressKind::none;
    const Estimate& plain = body_of(bare);
    s.least_seconds = std::min(s.seconds, plain.seconds);
    s.least_transient = min(s.least_transient, plain.least_transient);
  }
  if (!variant.settings.recipe.update_in_backward) {
    const Update& update = update_of(variant);
    if (!variant.settings.recipe.fold_update) {
      s.persistent = s.persistent + update.shared;
      s.update_seconds = update.seconds;
      s.seconds += update.seconds;
      s.compute_seconds += update.seconds;
      if (s.other_lanes > 0) s.other_lanes += update.seconds;
      s.least_seconds += update.seconds;
    }
    s.other_programs = std::max(s.other_programs, update.transient[Space::device]);
    s.transient = max(s.transient, update.transient);
    s.least_transient = max(s.least_transient, update.transient);
  }
  s.transient = max(s.transient, on_device(s.other_programs));
  s.least_transient = max(s.least_transient, on_device(s.other_programs));
  return s;
}

Estimates::Trial Estimates::trial(Variant variant, const RecomputePolicy& policy) {
  variant.settings.recipe.recompute = policy;
  return trials_.of(variant.settings, [&] { return make_trial(variant); });
}

// All that does not depend on where values live, but for one thing: weights that are updated first give the
// last micro-batch a program of its own.
const Module& Estimates::beginning_of(const Variant& variant, int32_t layers) {
  Beginning key{.settings = variant.settings,
                .weights_first = updates_weights_first(variant.settings.recipe),
                .layers = layers};
  key.settings.recipe.offload = {};
  key.settings.recipe.host_update = {};
  return beginnings_.of(key, [&] {
    return compile("step", variant.stack.forward(layers), variant.settings.recipe,
                   CompilePhase::accumulate);
  });
}

// Without what is due at other times than a step's: the update as a program of its own, which is estimated
// for itself, and evaluation and loading, which need no more: where values move, their copies are not worth
// making.
Estimates::LaidOut Estimates::laid_out(const Variant& variant, int32_t layers) {
  Recipe recipe = variant.settings.recipe;
  recipe.step_only = !recipe.offload.none();
  Module module = beginning_of(variant, layers);
  continue_compile(module, recipe, CompilePhase::ranks, CompilePhase::ranks);
  if (recipe.step_only) leave_out(module, ProgramRole::evaluation);
  if (recipe.updates_in_training())
    continue_compile(module, recipe, CompilePhase::update, CompilePhase::update);
  continue_compile(module, recipe, CompilePhase::offload, CompilePhase::offload);
  Orders orders = lay_out(module, recipe);
  return {std::move(module), std::move(orders)};
}

Estimates::Trial Estimates::make_trial(const Variant& variant) {
  const Recipe& recipe = variant.settings.recipe;
  const LaidOut whole = laid_out(variant, variant.stack.layers);
  SpaceBytes shared;
  for (const Value& value : whole.module.values) shared = shared + shared_bytes(value);
  SpaceBytes transient = most_live_of_all(whole.module);
  Trial trial{.seconds = step_cost(whole.module, variant.cost_model, whole.orders).step_seconds};
  if (!recipe.update_in_backward) {
    const Update& update = update_of(variant);
    transient = max(transient, update.transient);
    if (!recipe.fold_update) {
      shared = shared + update.shared;
      trial.seconds += update.seconds;
    }
  }
  trial.arena = shared + transient;
  return trial;
}

}  // namespace snug
