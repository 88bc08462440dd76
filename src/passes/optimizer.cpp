// The update: global norm and clipping over all gradients, then AdamW on each parameter. A norm
// that is not finite turns the whole update off, and the optimizer's own step count with it.
#include <unordered_map>

#include "ir/builder.h"
#include "ops/optimizer/clip.h"
#include "ops/optimizer/update_rule.h"
#include "passes/passes.h"

namespace snug {
namespace {

bool decays(Role role) { return role != Role::norm && role != Role::bias; }

}  // namespace

void optimizer(Module& module, const Recipe& recipe) {
  struct Trained {
    ValueId param, grad;
  };
  std::unordered_map<std::string, ValueId> grad_of;
  for (size_t i = 0; i < module.values.size(); ++i) {
    const Value& value = module.values[i];
    if (value.category == Category::grads && value.shared())
      grad_of[value.name] = {static_cast<int32_t>(i)};
  }
  std::vector<Trained> trained;
  std::vector<ValueId> grads;
  for (size_t i = 0, n = module.values.size(); i < n; ++i) {
    const Value& value = module.values[i];
    if (value.category != Category::params || !value.shared()) continue;
    const auto grad = grad_of.find("grad." + value.name);
    if (grad == grad_of.end()) continue;  // frozen, or nothing flows back into it
    trained.push_back({{static_cast<int32_t>(i)}, grad->second});
    grads.push_back(grad->second);
  }
  if (trained.empty())
    throw usage_error("model '{}' has no trainable parameter that the loss depends on",
                      module.name);

  const Type scalar{Dtype::f32, {}};
  const ValueId lr =
      add_shared(module, shared_names::kLearningRate, scalar, Category::inputs, Scope::step);
  const ValueId norm =
      add_shared(module, shared_names::kGradNorm, scalar, Category::buffers, Scope::step);
  const ValueId updates = add_shared(module, shared_names::kUpdates, {Dtype::i64, {}},
                                     Category::buffers, Scope::persistent);

  Builder b(module, "update");
  b.set_phase(Phase::update);
  const ValueId squares = ops::sum_squares(b, "norm.squares", grads);
  const ops::Clip clip = ops::clip(b, "norm.clip", {squares}, recipe.clip);
  module[clip.norm].base = norm;
  module[clip.norm].category = Category::buffers;
  const ValueId step = ops::advance(b, "updates.next", updates, clip.finite);

  for (const Trained& t : trained) {
    const Value p = module[t.param];
    b.set_layer(p.layer);
    const ops::UpdateRule rule =
        ops::adamw_rule({Dtype::f32, p.type.shape}, *p.param,
                        {.beta1 = recipe.beta1,
                         .beta2 = recipe.beta2,
                         .eps = recipe.eps,
                         .weight_decay = decays(p.param->role) ? recipe.weight_decay : 0});
    std::vector<ValueId> states;
    for (const ops::UpdateState& state : rule.states)
      states.push_back(add_shared(module, fmt::format("{}.{}", p.name, state.name), state.type,
                                  Category::optimizer, Scope::persistent, {}, p.layer));
    ops::emit_update(b, "update." + p.name, rule,
                     {.param = t.param,
                      .grad = t.grad,
                      .states = states,
                      .lr = lr,
                      .step = step,
                      .scale = clip.scale},
                     clip.finite);
  }
  module.step.push_back({1, {"update"}});
}

}  // namespace snug
