#include "passes/updates.h"

#include <algorithm>
#include <optional>

#include "base/units.h"
#include "ops/basic/assign.h"
#include "ops/comm/comm.h"
#include "passes/shared_names.h"

namespace snug {
namespace {

bool decays(Role role) { return role != Role::norm && role != Role::bias; }

ops::UpdateRule rule_for(const Type& type, const Param& param, const Recipe& r) {
  const ops::UpdateOptions options{.state = r.state_dtype,
                                   .beta1 = r.beta1,
                                   .beta2 = r.beta2,
                                   .eps = r.eps,
                                   .momentum = r.momentum,
                                   .weight_decay = decays(param.role) ? r.weight_decay : 0};
  switch (r.optimizer) {
    case OptimizerKind::adamw:
      return ops::adamw_rule(type, param, options);
    case OptimizerKind::adamw8bit:
      return ops::adamw8bit_rule(type, param, options);
    case OptimizerKind::adam_mini:
      return ops::adam_mini_rule(type, param, options);
    case OptimizerKind::lion:
      return ops::lion_rule(type, param, options);
    case OptimizerKind::sgd:
      return ops::sgd_rule(type, param, options);
  }
  throw internal_error("optimizer {} has no rule", static_cast<int>(r.optimizer));
}

// A program of the largest models stays short.
constexpr int64_t kMostSlices = 2048;

// Frozen parameters are cut anywhere.
int64_t grain_of(const Value& parameter, const Recipe& recipe) {
  if (!parameter.param->trainable) return 1;
  const Dtype dtype = recipe.master ? Dtype::f32 : parameter.type.dtype;
  return rule_for({dtype, parameter.whole()}, *parameter.param, recipe).grain;
}

}  // namespace

Cut cut_of(const Module& module, ValueId parameter, const Recipe& recipe) {
  if (!recipe.sharding.on()) return {};
  const Value& value = module[parameter];
  // What neighbours repeat is a part of it, which is added up among them.
  if (value.param && value.param->cut.repeats > 1) return {};
  return cut_of(value, grain_of(value, recipe), recipe.sharding);
}

// What is read twice is not on disk. It takes more staging, as bringing earlier does; most where all
// micro-batches go through the layers together. One rank of several updates a shard of them, which is
// soon done.
bool updates_weights_first(const Recipe& recipe) {
  const int32_t early = recipe.groups() > 1 ? 2 : 4;
  const auto is_at = [&](OffloadItem item, Space space) {
    return recipe.offload.space_of(item, kNoLayer) == space;
  };
  return recipe.fold_update && !recipe.sharding.on() && !recipe.mesh.on() &&
         recipe.offload.ahead >= early && recipe.master && recipe.precision != Dtype::f32 &&
         !recipe.host_update.covers(kNoLayer) && is_at(OffloadItem::master, Space::host) &&
         is_at(OffloadItem::optimizer, Space::host) && is_at(OffloadItem::params, Space::device) &&
         is_at(OffloadItem::grads, Space::device);
}

ProgramRole last_training_program(const Module& module) {
  for (const ProgramRole role : {ProgramRole::training_last, ProgramRole::training_next})
    if (module.program_index(role) >= 0) return role;
  return ProgramRole::training_first;
}

Updates::Updates(Module& module, const Recipe& recipe)
    : module_(module),
      offload_(recipe.offload),
      sharding_(recipe.sharding),
      mesh_(recipe.mesh),
      weights_first_(updates_weights_first(recipe)) {
  collect(recipe);
  if (trained_.empty())
    throw usage_error("model '{}' has no trainable parameter that the loss depends on",
                      module.name);
  int64_t all = 0;
  for (const Trained& t : trained_) all += elements_of(t);
  slice_ = std::max(offload_.slice, all / kMostSlices);
  const Type scalar{Dtype::f32, {}};
  lr_ = add_shared(module, shared_names::kLearningRate, scalar, Category::inputs, Scope::step);
  norm_ = add_shared(module, shared_names::kGradNorm, scalar, Category::buffers, Scope::step);
  updates_ = add_shared(module, shared_names::kUpdates, {Dtype::i64, {}}, Category::buffers,
                        Scope::persistent);
  loss_scale_ = module.find_shared(shared_names::kLossScale);
  if (recipe.master) add_masters(recipe.step_only);
  for (Trained& t : trained_) {
    const Value value = module[t.target()];
    const Type whole{value.type.dtype, value.whole()};
    t.rule = rule_for(whole, *value.param, recipe);
    for (const ops::UpdateState& state : t.rule.states) {
      t.states.push_back(add_shared(module, fmt::format("{}.{}", t.name, state.name), state.type,
                                    Category::optimizer, Scope::persistent, {}, value.layer));
      module[t.states.back()].parameter = t.param;
      if (t.cut.on()) make_shard(module[t.states.back()], t.cut.per(state.per));
    }
    if (!seed_.valid() && t.rule.needs_seed(whole)) seed_ = seed();
  }
}

// In the order of the parameters; frozen ones, and those that the loss does not reach, have no
// gradient.
void Updates::collect(const Recipe& recipe) {
  std::vector<ValueId> grad_of(module_.values.size());
  for (size_t i = 0; i < module_.values.size(); ++i) {
    const Value& value = module_.values[i];
    if (value.category == Category::grads && value.shared() && value.parameter.valid())
      grad_of[static_cast<size_t>(value.parameter.index)] = {static_cast<int32_t>(i)};
  }
  for (size_t i = 0; i < module_.values.size(); ++i) {
    if (!grad_of[i].valid()) continue;
    const ValueId param{static_cast<int32_t>(i)};
    trained_.push_back({.name = module_[param].name,
                        .param = param,
                        .grad = grad_of[i],
                        .cut = cut_of(module_, param, recipe)});
  }
}

// The master takes over the parameter's name, initial value and place in a checkpoint; what forward
// reads is a copy of it.
void Updates::add_masters(bool step_only) {
  std::optional<Builder> load;  // one for all: it looks at every name there is
  for (Trained& t : trained_) {
    const Value param = module_[t.param];
    if (param.type.dtype == Dtype::f32) continue;
    Param copy = *param.param;
    copy.init = {};
    copy.checkpoint.clear();
    module_[t.param].name = fmt::format("{}.{}", param.name, name_of(param.type.dtype));
    module_[t.param].param = std::make_shared<const Param>(std::move(copy));
    t.master = add_shared(module_, param.name, {Dtype::f32, param.whole()}, Category::master,
                          Scope::persistent, *param.param, param.layer);
    module_[t.master].parameter = t.param;
    if (t.cut.on()) make_shard(module_[t.master], t.cut);
    if (step_only) continue;
    if (!load) load.emplace(module_, ProgramRole::load).set_phase(Phase::update);
    load->set_layer(param.layer);
    const std::string name = "load." + param.name;
    std::vector<Slice> slices = slices_of(t, /*grain=*/1);
    if (t.cut.on()) std::ranges::reverse(slices);  // as in emit_all
    ValueId rounded;
    for (const Slice& slice : slices)
      rounded = ops::assign(*load, name, part_of(*load, t, t.param, slice),
                            part_of(*load, t, t.master, slice));
    gather(*load, t, rounded);
  }
}

ValueId Updates::seed() {
  const ValueId found = module_.find_shared("seed");
  return found.valid()
             ? found
             : add_shared(module_, "seed", {Dtype::i64, {}}, Category::inputs, Scope::step);
}

ValueId Updates::advance(Builder& b, ValueId finite) const {
  return ops::advance(b, "updates.next", updates_, finite);
}

ops::Clip Updates::clip(Builder& b, std::string_view name, const std::vector<ValueId>& squares,
                        double max_norm, ValueId loss) const {
  return ops::clip(b, name, squares, max_norm, loss_scale_, loss);
}

void Updates::bind_norm(ValueId norm) const {
  module_[norm].base = norm_;
  module_[norm].category = Category::buffers;
}

ops::Update Updates::update_of(const Trained& t, ValueId grad, const Numbers& numbers) const {
  return {.param = t.target(),
          .grad = grad,
          .states = t.states,
          .lr = numbers.lr,
          .step = numbers.step,
          .scale = numbers.scale,
          .seed = t.rule.needs_seed(module_[t.target()].type) ? seed_ : ValueId{},
          .weight = t.master.valid() ? t.param : ValueId{}};
}

void Updates::emit(Builder& b, const Trained& t, ValueId grad, const Numbers& numbers) const {
  emit(b, t, {0, elements_of(t)}, grad, numbers);
  gather(b, t, version_of(b.last(), t.param));
}

void Updates::emit(Builder& b, const Trained& t, const Slice& slice, ValueId grad,
                   const Numbers& numbers) const {
  const std::string whole = "update." + t.name;
  b.set_layer(module_[t.param].layer);
  ops::Update update = update_of(t, grad, numbers);
  if (t.cut.on() || slice.elements < elements_of(t)) {
    for (ValueId* id : {&update.param, &update.grad, &update.weight})
      *id = part_of(b, t, *id, slice);
    for (size_t s = 0; s < t.states.size(); ++s)
      update.states[s] = part_of(b, t, t.states[s], slice, t.rule.states[s].per);
  }
  update.first = t.cut.first() + slice.first;
  update.whole = whole;
  ops::emit_update(b, whole, t.rule, update, numbers.finite);
}

ValueId Updates::shaped(Builder& b, const Trained& t, ValueId grad) const {
  const Shape shape = module_[t.param].type.shape;
  if (t.cut.on() || module_[grad].type.shape == shape) return grad;
  return b.view(grad, module_[grad].name + ".shaped", shape, 0);
}

// From the last slice to the first, which begins where the shard does: all of it is there then.
void Updates::emit_all(Builder& b, const Trained& t, const Numbers& numbers) const {
  std::vector<Slice> slices = slices_of(t);
  if (t.cut.on()) std::ranges::reverse(slices);
  for (const Slice& slice : slices) emit(b, t, slice, numbers);
  gather(b, t, version_of(b.last(), t.param));
}

ValueId Updates::version_of(const Op& update, ValueId param) const {
  return *std::ranges::find_if(update.outputs,
                               [&](ValueId id) { return module_.root(id) == param; });
}

ValueId Updates::gather(Builder& b, const Trained& t, ValueId own) const {
  if (!t.cut.on() || module_[t.param].shard_of.rank() > 0) return {};
  const Value param = module_[t.param];
  if (module_[own].type.shape.elements() != t.cut.block)
    own = b.view(own, param.name + ".own", {t.cut.block}, 0);
  const ValueId all = ops::all_gather(b, param.name + ".gather", own, over_sharers(sharding_));
  module_[all].base = t.param;
  module_[all].category = param.category;
  return all;
}

int64_t Updates::elements_of(const Trained& t) const {
  return t.cut.on() ? t.cut.block : module_[t.param].type.shape.elements();
}

bool Updates::is_all_on_device(const Trained& t) const {
  std::vector<ValueId> used = t.states;
  used.insert(used.end(), {t.param, t.target(), t.grad});
  return std::ranges::all_of(used, [&](ValueId id) { return on_device(id); });
}

bool Updates::weight_is_first(const Trained& t) const {
  return weights_first_ && t.master.valid() && module_[t.param].layer == kNoLayer;
}

bool Updates::on_device(ValueId id) const {
  const Value& value = module_[id];
  const auto item = offload_item(value.category);
  return !item || offload_.space_of(*item, value.layer) == Space::device;
}

std::vector<Updates::Slice> Updates::slices_of(const Trained& t, int64_t grain) const {
  const int64_t all = elements_of(t);
  const int64_t slice =
      grain == 0 || is_all_on_device(t) ? all : std::max<int64_t>(1, slice_ / grain) * grain;
  std::vector<Slice> slices;
  for (int64_t first = 0; first < all; first += slice)
    slices.push_back({first, std::min(slice, all - first)});
  return slices;
}

// Of a value that every rank has whole, in this rank's shard; what a program has made is a part.
ValueId Updates::part_of(Builder& b, const Trained& t, ValueId id, const Slice& slice,
                         int64_t per) const {
  if (!id.valid()) return id;
  const Value& value = module_[id];
  const int64_t elements = ceil_div(slice.elements, per);
  const bool in_whole = t.cut.on() && value.shared() && value.shard_of.rank() == 0;
  const int64_t first = (slice.first + (in_whole ? t.cut.first() : 0)) / per;
  const Shape shape{elements};
  if (first == 0 && elements == value.type.shape.elements() &&
      (!t.cut.on() || value.type.shape == shape))
    return id;
  return b.view(id, value.name + ".slice", shape, first);
}

}  // namespace snug
