// Reverse-mode differentiation of a program, by the gradients that the ops themselves define.
#include <algorithm>
#include <unordered_map>

#include "ir/builder.h"
#include "ops/basic/add.h"
#include "ops/basic/cast.h"
#include "ops/basic/copy.h"
#include "ops/basic/multiply.h"
#include "passes/passes.h"
#include "passes/retype.h"
#include "passes/shared_names.h"

namespace snug {
namespace {

class Autodiff {
 public:
  Autodiff(Module& module, std::string_view program, const Recipe& recipe)
      : module_(module), builder_(module, program), recipe_(recipe) {
    builder_.set_phase(Phase::backward);
  }

  void run(ValueId loss) {
    const size_t forward_ops = builder_.program().ops.size();
    mark_values_that_need_gradients(forward_ops);
    gradients_[loss.index] = loss_gradient(module_[loss].type);
    for (size_t at = forward_ops; at-- > 0;) differentiate(at);
    for (const auto& [from, to] : replaced_) {
      if (from == loss) loss = to;
    }
    bind_loss(module_, builder_.program().name, loss);
  }

 private:
  // What flows back from the loss: 1 / count, times the loss scale where there is one.
  ValueId loss_gradient(const Type& type) {
    const ValueId fed =
        add_shared(module_, shared_names::kLossGrad, type, Category::inputs, Scope::step);
    if (!recipe_.loss_scale.on()) return fed;
    const ValueId scale =
        add_shared(module_, shared_names::kLossScale, type, Category::buffers, Scope::persistent,
                   {.init = {Init::Kind::constant, recipe_.loss_scale.start}, .trainable = false});
    return ops::multiply(builder_, "dloss.scaled", fed, scale);
  }

  bool trainable(ValueId id) const {
    const Value& v = module_[id];
    return v.category == Category::params && v.param && v.param->trainable &&
           is_float(v.type.dtype);
  }

  void mark_values_that_need_gradients(size_t forward_ops) {
    needs_.resize(module_.values.size());
    for (size_t i = 0; i < module_.values.size(); ++i)
      needs_[i] = trainable({static_cast<int32_t>(i)});
    for (size_t at = 0; at < forward_ops; ++at) {
      const Op& op = builder_.program().ops[at];
      if (op.def->grad == nullptr) continue;
      for (ValueId id : op.inputs) refuse_view_that_needs_a_gradient(op, id);
      const bool any =
          std::any_of(op.inputs.begin(), op.inputs.end(), [&](ValueId id) { return needs(id); });
      for (ValueId id : op.outputs) needs_[static_cast<size_t>(id.index)] = any;
    }
  }
  // A view has no maker to differentiate: its gradient would be lost without a word.
  void refuse_view_that_needs_a_gradient(const Op& op, ValueId id) const {
    if (!id.valid() || needs(id) || !needs(module_.root(id))) return;
    throw internal_error("{} '{}' reads '{}', a view of '{}': gradients do not flow through views",
                         op.def->kind, op.name, module_[id].name, module_[module_.root(id)].name);
  }
  bool needs(ValueId id) const { return id.valid() && needs_[static_cast<size_t>(id.index)]; }

  void differentiate(size_t at) {
    const Op op = builder_.program().ops[at];  // a copy: emitting moves the list
    if (op.def->grad == nullptr) return;
    std::vector<ValueId> output_grads;
    for (ValueId id : op.outputs) output_grads.push_back(gradient_of(id));
    if (std::none_of(output_grads.begin(), output_grads.end(),
                     [](ValueId id) { return id.valid(); }))
      return;
    std::vector<bool> wanted;
    for (ValueId id : op.inputs) wanted.push_back(needs(id));
    if (std::find(wanted.begin(), wanted.end(), true) == wanted.end()) return;

    builder_.set_layer(op.layer);
    GradContext context(builder_, op, output_grads, wanted);
    const size_t first_emitted = builder_.program().ops.size();
    op.def->grad(context);
    for (size_t port = 0; port < op.inputs.size(); ++port) {
      const ValueId gradient = context.input_grads()[port];
      if (!wanted[port] || !gradient.valid()) continue;
      const auto& all = context.input_grads();
      const bool fresh = std::count(all.begin(), all.end(), gradient) == 1;
      contribute(op.inputs[port], gradient, fresh, first_emitted);
    }
    auto& ops = builder_.program().ops;
    for (size_t emitted = first_emitted; emitted < ops.size(); ++emitted)
      ops[emitted].backward_of = op.name;
    for (size_t port = 0; port < op.outputs.size(); ++port) {
      if (context.replacements()[port].valid())
        replaced_.emplace_back(op.outputs[port], context.replacements()[port]);
    }
  }

  ValueId gradient_of(ValueId id) const {
    const auto found = gradients_.find(id.index);
    return found == gradients_.end() ? ValueId{} : found->second;
  }

  // Adds `gradient` to what is known of d loss / d input. fresh: made by this op for this input
  // alone, so that its making may be changed.
  void contribute(ValueId input, ValueId gradient, bool fresh, size_t first_emitted) {
    const ValueId before = gradient_of(input);
    Op* maker = fresh ? maker_of(gradient, first_emitted) : nullptr;
    if (trainable(input) && module_[gradient].type.dtype != recipe_.grad_dtype) {
      if (maker != nullptr) make_in_grad_dtype(*maker);
      if (module_[gradient].type.dtype != recipe_.grad_dtype) {
        gradient =
            ops::cast(builder_, module_[gradient].name + ".cast", gradient, recipe_.grad_dtype);
        maker = &builder_.last();
      }
    }
    if (before.valid() && !(maker != nullptr && add_in_maker(*maker, gradient, before))) {
      gradient = ops::add(builder_, module_[gradient].name + ".sum", before, gradient);
      maker = &builder_.last();
    }
    if (trainable(input)) gradient = keep_as_parameter_gradient(input, gradient, maker != nullptr);
    gradients_[input.index] = gradient;
  }

  Op* maker_of(ValueId id, size_t first_emitted) {
    auto& ops = builder_.program().ops;
    for (size_t at = first_emitted; at < ops.size(); ++at) {
      if (std::find(ops[at].outputs.begin(), ops[at].outputs.end(), id) != ops[at].outputs.end())
        return &ops[at];
    }
    return nullptr;
  }

  // Gradients of parameters may be kept in another type than the parameters: the op that makes one
  // rounds once, from fp32.
  void make_in_grad_dtype(Op& maker) {
    maker.attrs.set("grad_dtype", std::string(name_of(recipe_.grad_dtype)));
    retype_outputs(module_, maker);
  }

  // Sums through the op's accumulator where it has one that is free: no add op, no second value.
  static bool add_in_maker(Op& maker, ValueId gradient, ValueId before) {
    const auto output =
        std::find(maker.outputs.begin(), maker.outputs.end(), gradient) - maker.outputs.begin();
    const int port = maker.def->accumulator_of(static_cast<int>(output));
    if (port < 0 || maker.inputs[static_cast<size_t>(port)].valid()) return false;
    maker.inputs[static_cast<size_t>(port)] = before;
    return true;
  }

  // A parameter's gradient outlives the program: it is written where the step carries it.
  ValueId keep_as_parameter_gradient(ValueId param, ValueId gradient, bool own) {
    auto [at, added] = parameter_grads_.try_emplace(param.index);
    if (added) at->second = add_gradient(module_, param, recipe_.grad_dtype);
    if (!own) gradient = ops::copy(builder_, module_[gradient].name + ".kept", gradient);
    Value& value = module_[gradient];
    value.base = at->second;
    value.category = Category::grads;
    return gradient;
  }

  Module& module_;
  Builder builder_;
  const Recipe& recipe_;
  std::vector<bool> needs_;
  std::unordered_map<int32_t, ValueId> gradients_;        // value -> its gradient so far
  std::unordered_map<int32_t, ValueId> parameter_grads_;  // parameter -> shared grad.NAME
  std::vector<std::pair<ValueId, ValueId>>
      replaced_;  // forward output -> the same value, made by a backward op
};

}  // namespace

void autodiff(Module& module, std::string_view program, Forward forward, const Recipe& recipe) {
  Autodiff(module, program, recipe).run(forward.loss);
}

void bind_loss(Module& module, std::string_view program, ValueId loss) {
  ValueId target = module.find_shared(shared_names::kLoss);
  if (!target.valid()) {
    target =
        add_shared(module, shared_names::kLoss, module[loss].type, Category::buffers, Scope::step);
  }
  if (module[loss].program != module.program_index(program)) {
    throw internal_error("the loss '{}' is not made by program '{}'", module[loss].name, program);
  }
  module[loss].base = target;
  module[loss].category = Category::buffers;
}

}  // namespace snug
