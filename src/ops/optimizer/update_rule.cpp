#include "ops/optimizer/update_rule.h"

#include "base/units.h"
#include "ops/optimizer/adam_mini.h"
#include "ops/optimizer/adamw.h"
#include "ops/optimizer/adamw8bit.h"
#include "ops/optimizer/lion.h"
#include "ops/optimizer/sgd.h"
#include "ops/optimizer/update_op.h"
#include "ops/quantize/format.h"

namespace snug::ops {
namespace {

// Below this the 8-bit state saves nothing worth its error.
constexpr int64_t kSmallest8bit = 4096;

Attrs adam_attrs(const UpdateOptions& o) {
  return {{"beta1", o.beta1}, {"beta2", o.beta2}, {"eps", o.eps}, {"weight_decay", o.weight_decay}};
}

bool keeps_full_state(Role role) {
  return role == Role::embedding || role == Role::head || role == Role::position;
}

}  // namespace

int64_t UpdateRule::state_bytes() const {
  int64_t bytes = 0;
  for (const UpdateState& state : states) bytes += state.type.bytes();
  return bytes;
}

bool UpdateRule::needs_seed(const Type& param) const {
  return is_half(param.dtype) ||
         std::ranges::any_of(states, [](const UpdateState& s) { return is_half(s.type.dtype); });
}

UpdateRule adamw_rule(const Type& type, const Param&, const UpdateOptions& o) {
  const Type moment{o.state, type.shape};
  return {&adamw_def, &adamw_master_def, {{"m", moment}, {"v", moment}}, adam_attrs(o)};
}

UpdateRule adamw8bit_rule(const Type& type, const Param& param, const UpdateOptions& o) {
  const int64_t n = type.shape.elements();
  if (keeps_full_state(param.role) || n < kSmallest8bit) return adamw_rule(type, param, o);
  const Type codes = kDynamic8.payload_type(type.shape), scales = kDynamic8.scales_type(type.shape);
  return {&adamw8bit_def,
          &adamw8bit_master_def,
          {{"m", codes},
           {"m_scale", scales, kDynamic8.block},
           {"v", codes},
           {"v_scale", scales, kDynamic8.block}},
          adam_attrs(o),
          kDynamic8.block};
}

UpdateRule adam_mini_rule(const Type& type, const Param& param, const UpdateOptions& o) {
  const std::string groups = adam_mini_groups(type, param);
  if (groups.empty()) return adamw_rule(type, param, o);
  Attrs attrs = adam_attrs(o);
  attrs.set("groups", groups);
  attrs.set("in_out", param.in_out);
  return {&adam_mini_def,
          &adam_mini_master_def,
          {{"m", {o.state, type.shape}}, {"v", {Dtype::f32, {adam_mini_parts(groups)}}}},
          std::move(attrs),
          /*grain=*/0};
}

UpdateRule lion_rule(const Type& type, const Param&, const UpdateOptions& o) {
  return {&lion_def,
          &lion_master_def,
          {{"m", {o.state, type.shape}}},
          {{"beta1", o.beta1}, {"beta2", o.beta2}, {"weight_decay", o.weight_decay}}};
}

UpdateRule sgd_rule(const Type& type, const Param&, const UpdateOptions& o) {
  if (o.momentum == 0) return {&sgd_def, &sgd_master_def, {}, {{"weight_decay", o.weight_decay}}};
  return {&sgd_momentum_def,
          &sgd_momentum_master_def,
          {{"momentum", {o.state, type.shape}}},
          {{"momentum", o.momentum}, {"weight_decay", o.weight_decay}}};
}

void emit_update(Builder& b, std::string_view name, const UpdateRule& rule, const Update& update,
                 ValueId predicate) {
  if (update.states.size() != rule.states.size())
    throw internal_error("{} '{}' keeps {} states, not {}", rule.def->kind, name,
                         rule.states.size(), update.states.size());
  std::vector<ValueId> inputs{update.param, update.grad};
  inputs.insert(inputs.end(), update.states.begin(), update.states.end());
  if (update.weight.valid()) inputs.push_back(update.weight);
  inputs.insert(inputs.end(), {update.lr, update.step, update.scale});
  Attrs attrs = rule.attrs;
  if (rule.needs_seed(b.type(update.param))) {
    inputs.push_back(update.seed);
    attrs.set("key", b.full_name(update.whole.empty() ? name : update.whole));
    if (update.first > 0) attrs.set("first", update.first);
  }
  b.emit(update.weight.valid() ? *rule.on_master : *rule.def, name, std::move(inputs),
         std::move(attrs));
  b.last().predicate = predicate;
}

}  // namespace snug::ops
