// How one parameter is updated: the op, the state it keeps and its attributes. A table of these
// functions is all that the optimizer pass knows of the methods.
//
//   UpdateRule rule = adamw8bit_rule(type, param, {.weight_decay = 0.1});
//   for (const UpdateState& s : rule.states) states.push_back(add_shared(... s.name, s.type ...));
//   emit_update(b, "update.wte", rule, {.param = p, .grad = g, .states = states, .lr = lr,
//               .step = step, .scale = clip.scale, .seed = seed}, clip.finite);
#pragma once

#include "ir/builder.h"

namespace snug::ops {

struct UpdateOptions {
  Dtype state = Dtype::f32;  // f32 or bf16; what a method keeps otherwise stays as it is
  double beta1 = 0.9, beta2 = 0.95, eps = 1e-8;
  double momentum = 0.9;    // sgd; 0: no state
  double weight_decay = 0;  // on this parameter
};

struct UpdateState {
  std::string_view name;  // "m", "v", "m_scale", ...: the op's port
  Type type;              // all bytes zero before the first update
  int64_t per = 1;        // elements of the parameter for each of its own
};

struct UpdateRule {
  const OpDef* def = nullptr;
  const OpDef* on_master = nullptr;  // the same where a weight is rounded from the parameter
  std::vector<UpdateState> states;
  Attrs attrs;
  // A parameter can be updated in slices that begin at multiples of so many elements, with the bits
  // of the whole; 0: only whole.
  int64_t grain = kUpdateGrain;

  static constexpr int64_t kUpdateGrain = 8;  // elements that one draw of rounding noise serves
  int64_t state_bytes() const;
  // Whether something is stored in 2 bytes, so that a seed is needed to round it without bias.
  bool needs_seed(const Type& param) const;
};

// `type` is what the update works on: the master where there is one. adamw8bit keeps embeddings,
// positions, heads and tensors under 4,096 elements in AdamW's state, adam_mini the first three.
UpdateRule adamw_rule(const Type& type, const Param& param, const UpdateOptions& options);
UpdateRule adamw8bit_rule(const Type& type, const Param& param, const UpdateOptions& options);
UpdateRule adam_mini_rule(const Type& type, const Param& param, const UpdateOptions& options);
UpdateRule lion_rule(const Type& type, const Param& param, const UpdateOptions& options);
UpdateRule sgd_rule(const Type& type, const Param& param, const UpdateOptions& options);

struct Update {
  ValueId param, grad;          // f32, bf16 or f16, each its own
  std::vector<ValueId> states;  // in the rule's order
  ValueId lr;                   // f32[]
  ValueId step;                 // i64[]: the optimizer's own count, 1 on the first update
  ValueId scale;                // f32[]: the factor on the gradient
  ValueId seed;                 // i64[]; left out where the rule needs none
  ValueId weight;               // bf16 or f16, rounded from a master; else none
  // A slice: the element of the parameter that is its first, and the name that the update of the
  // whole would have.
  int64_t first = 0;
  std::string_view whole = {};
};
// predicate: i32[]; the parameter and its state stay as they are when it is 0.
void emit_update(Builder& b, std::string_view name, const UpdateRule& rule, const Update& update,
                 ValueId predicate = {});

}  // namespace snug::ops
