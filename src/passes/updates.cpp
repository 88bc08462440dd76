#include "passes/updates.h"

#include <algorithm>
#include <optional>

#include "base/units.h"
#include "ops/basic/assign.h"

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

}  // namespace

Updates::Updates(Module& module, const Recipe& recipe) : module_(module), offload_(recipe.offload) {
  collect();
  if (trained_.empty())
    throw usage_error("model '{}' has no trainable parameter that the loss depends on",
                      module.name);
  const Type scalar{Dtype::f32, {}};
  lr_ = add_shared(module, shared_names::kLearningRate, scalar, Category::inputs, Scope::step);
  norm_ = add_shared(module, shared_names::kGradNorm, scalar, Category::buffers, Scope::step);
  updates_ = add_shared(module, shared_names::kUpdates, {Dtype::i64, {}}, Category::buffers,
                        Scope::persistent);
  loss_scale_ = module.find_shared(shared_names::kLossScale);
  if (recipe.master) add_masters();
  for (Trained& t : trained_) {
    const Value value = module[t.target()];
    t.rule = rule_for(value.type, *value.param, recipe);
    for (const ops::UpdateState& state : t.rule.states) {
      t.states.push_back(add_shared(module, fmt::format("{}.{}", t.name, state.name), state.type,
                                    Category::optimizer, Scope::persistent, {}, value.layer));
      module[t.states.back()].parameter = t.param;
    }
    if (!seed_.valid() && t.rule.needs_seed(value.type)) seed_ = seed();
  }
}

// In the order of the parameters; frozen ones, and those that the loss does not reach, have no
// gradient.
void Updates::collect() {
  std::vector<ValueId> grad_of(module_.values.size());
  for (size_t i = 0; i < module_.values.size(); ++i) {
    const Value& value = module_.values[i];
    if (value.category == Category::grads && value.shared() && value.parameter.valid())
      grad_of[static_cast<size_t>(value.parameter.index)] = {static_cast<int32_t>(i)};
  }
  for (size_t i = 0; i < module_.values.size(); ++i) {
    if (!grad_of[i].valid()) continue;
    const ValueId param{static_cast<int32_t>(i)};
    trained_.push_back({.name = module_[param].name, .param = param, .grad = grad_of[i]});
  }
}

// The master takes over the parameter's name, initial value and place in a checkpoint; what forward
// reads is a copy of it.
void Updates::add_masters() {
  std::optional<Builder> load;  // one for all: it looks at every name there is
  for (Trained& t : trained_) {
    const Value param = module_[t.param];
    if (param.type.dtype == Dtype::f32) continue;
    Param copy = *param.param;
    copy.init = {};
    copy.checkpoint.clear();
    module_[t.param].name = fmt::format("{}.{}", param.name, name_of(param.type.dtype));
    module_[t.param].param = std::make_shared<const Param>(std::move(copy));
    t.master = add_shared(module_, param.name, {Dtype::f32, param.type.shape}, Category::master,
                          Scope::persistent, *param.param, param.layer);
    module_[t.master].parameter = t.param;
    if (!load) load.emplace(module_, ProgramRole::load).set_phase(Phase::update);
    load->set_layer(param.layer);
    ops::assign(*load, "load." + param.name, t.param, t.master);
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

ops::Clip Updates::clip(Builder& b, std::string_view name, const std::vector<ValueId>& parts,
                        double max_norm, ValueId loss) const {
  return ops::clip(b, name, parts, max_norm, loss_scale_, loss);
}

void Updates::bind_norm(ValueId norm) const {
  module_[norm].base = norm_;
  module_[norm].category = Category::buffers;
}

ops::Update Updates::update_of(const Trained& t, ValueId grad, ValueId step,
                               const ops::Clip& clip) const {
  return {.param = t.target(),
          .grad = grad,
          .states = t.states,
          .lr = lr_,
          .step = step,
          .scale = clip.scale,
          .seed = t.rule.needs_seed(module_[t.target()].type) ? seed_ : ValueId{},
          .weight = t.master.valid() ? t.param : ValueId{}};
}

void Updates::emit(Builder& b, const Trained& t, ValueId grad, ValueId step,
                   const ops::Clip& clip) const {
  b.set_layer(module_[t.param].layer);
  ops::emit_update(b, "update." + t.name, t.rule, update_of(t, grad, step, clip), clip.finite);
}

// How many elements go at once: all, where nothing has to be brought.
int64_t Updates::slice_of(const Trained& t) const {
  const int64_t all = module_[t.param].type.shape.elements();
  std::vector<ValueId> used = t.states;
  used.insert(used.end(), {t.param, t.target(), t.grad});
  const bool at_home = std::ranges::all_of(used, [&](ValueId id) {
    const Value& value = module_[id];
    const auto item = offload_item(value.category);
    return !item || offload_.home_of(*item, value.layer) == Space::device;
  });
  if (at_home || t.rule.grain == 0) return all;
  return std::max<int64_t>(1, offload_.slice / t.rule.grain) * t.rule.grain;
}

void Updates::emit_in_slices(Builder& b, const Trained& t, ValueId grad, ValueId step,
                             const ops::Clip& clip) const {
  const int64_t all = module_[t.param].type.shape.elements();
  const int64_t slice = slice_of(t);
  if (slice >= all) return emit(b, t, grad, step, clip);
  const std::string whole = "update." + t.name;
  b.set_layer(module_[t.param].layer);
  for (int64_t first = 0; first < all; first += slice) {
    const auto part = [&](ValueId id, int64_t per = 1) {
      return id.valid() ? b.view(id, fmt::format("{}.{}", module_[id].name, first / slice),
                                 {ceil_div(std::min(slice, all - first), per)}, first / per)
                        : id;
    };
    ops::Update update = update_of(t, part(grad), step, clip);
    update.param = part(update.param);
    update.weight = part(update.weight);
    for (size_t s = 0; s < t.states.size(); ++s)
      update.states[s] = part(t.states[s], t.rule.states[s].per);
    update.first = first;
    update.whole = whole;
    ops::emit_update(b, fmt::format("{}.{}", whole, first / slice), t.rule, update, clip.finite);
  }
}

}  // namespace snug
