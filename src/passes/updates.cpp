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

// A program of the largest models stays short.
constexpr int64_t kMostSlices = 2048;

}  // namespace

Updates::Updates(Module& module, const Recipe& recipe) : module_(module), offload_(recipe.offload) {
  collect();
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
    const std::string name = "load." + param.name;
    for (const Slice& slice : slices_of(t, /*grain=*/1))
      ops::assign(*load, name, part_of(*load, t.param, slice), part_of(*load, t.master, slice));
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
  b.set_layer(module_[t.param].layer);
  ops::emit_update(b, "update." + t.name, t.rule, update_of(t, grad, numbers), numbers.finite);
}

void Updates::emit(Builder& b, const Trained& t, const Slice& slice, const Numbers& numbers) const {
  if (slice.elements == elements_of(t)) return emit(b, t, t.grad, numbers);
  const std::string whole = "update." + t.name;
  b.set_layer(module_[t.param].layer);
  ops::Update update = update_of(t, t.grad, numbers);
  for (ValueId* id : {&update.param, &update.grad, &update.weight}) *id = part_of(b, *id, slice);
  for (size_t s = 0; s < t.states.size(); ++s) {
    const int64_t per = t.rule.states[s].per;
    update.states[s] = part_of(b, t.states[s], {slice.first / per, ceil_div(slice.elements, per)});
  }
  update.first = slice.first;
  update.whole = whole;
  ops::emit_update(b, whole, t.rule, update, numbers.finite);
}

int64_t Updates::elements_of(const Trained& t) const {
  return module_[t.param].type.shape.elements();
}

bool Updates::is_all_on_device(const Trained& t) const {
  std::vector<ValueId> used = t.states;
  used.insert(used.end(), {t.param, t.target(), t.grad});
  return std::ranges::all_of(used, [&](ValueId id) { return on_device(id); });
}

bool Updates::on_device(ValueId id) const {
  const Value& value = module_[id];
  const auto item = offload_item(value.category);
  return !item || offload_.home_of(*item, value.layer) == Space::device;
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

ValueId Updates::part_of(Builder& b, ValueId id, const Slice& slice) const {
  if (!id.valid() || slice.elements == module_[id].type.shape.elements()) return id;
  return b.view(id, module_[id].name + ".slice", {slice.elements}, slice.first);
}

}  // namespace snug
