#include "models/parts/emitter.h"

#include "ops/activation/dropout.h"
#include "ops/activation/gelu.h"
#include "ops/activation/relu.h"
#include "ops/activation/swiglu.h"
#include "ops/linear/linear.h"
#include "ops/norm/layer_norm.h"
#include "ops/norm/rms_norm.h"
#include "ops/rotary/qk_norm.h"

namespace snug {
namespace {

std::string with_suffix(std::string_view name, std::string_view suffix) {
  return fmt::format("{}.{}", name, suffix);
}

// Of a packed tensor that has q, k and v of one head, then of the next, where the parameter has all
// queries, all keys and all values: its pieces, in the order of the file.
std::vector<CheckpointPart> by_head(const Param& param, int64_t heads) {
  constexpr int64_t kOfHead = 3;
  const CheckpointPart& whole = param.checkpoint.at(0);
  const int64_t D = whole.shape[0] / (kOfHead * heads);
  const Shape shape = whole.shape.rank() == 1 ? Shape{D} : Shape{D, whole.shape[1]};
  std::vector<CheckpointPart> pieces;
  for (int64_t head = 0; head < heads; ++head) {
    for (int64_t which = 0; which < kOfHead; ++which)
      pieces.push_back({whole.name, shape, (which * heads + head) * shape.elements()});
  }
  return pieces;
}

constexpr Init kZeros{Init::Kind::zeros, 0};

}  // namespace

Emitter::Emitter(Module& module, std::string_view program) : builder_(module, program) {
  for (size_t i = 0; i < module.values.size(); ++i) {
    const Value& value = module.values[i];
    if (value.shared()) shared_.emplace(value.name, ValueId{static_cast<int32_t>(i)});
  }
}

ValueId Emitter::shared(std::string name, Type type, Category category, Scope scope, Param param) {
  if (const auto found = shared_.find(name); found != shared_.end()) {
    const Type& there = builder_.type(found->second);
    if (there == type) return found->second;
    throw internal_error("'{}' is {} in one program and {} in another", name, there.text(),
                         type.text());
  }
  const ValueId id = add_shared(builder_.module(), name, type, category, scope, std::move(param),
                                builder_.layer_index());
  shared_.emplace(std::move(name), id);
  return id;
}

ValueId Emitter::input(std::string_view name, Type type) {
  return shared(std::string(name), type, Category::inputs, Scope::step, {});
}

ValueId Emitter::input(const Input* input, const Input::Sizes& sizes) {
  return input == nullptr ? ValueId{} : this->input(input->name, input->type(sizes));
}

ops::Random Emitter::random() {
  const Type scalar{Dtype::i64, {}};
  return {.seed = input("seed", scalar),
          .step = input("step", scalar),
          .sample = input("sample", scalar)};
}

ValueId Emitter::param(std::string_view name, Shape shape, Param param) {
  return shared(builder_.full_name(name), {Dtype::f32, shape}, Category::params, Scope::persistent,
                std::move(param));
}

ValueId Emitter::param(std::string_view name, Shape shape, Role role, Init init,
                       std::string checkpoint) {
  Param whole{.role = role, .init = init};
  whole.checkpoint.push_back({std::move(checkpoint), shape});
  return param(name, shape, std::move(whole));
}

ValueId Emitter::cache(std::string_view name, Shape shape) {
  return shared(builder_.full_name(name), {Dtype::f32, shape}, Category::buffers, Scope::persistent,
                Param{.init = kZeros, .trainable = false});
}

ValueId Emitter::linear(std::string_view name, ValueId x, const LinearLayer& layer,
                        ValueId residual) {
  const int64_t in = builder_.shape(x).back();
  Param weight{.role = Role::matrix, .init = {Init::Kind::normal, layer.init_std}};
  Param bias{.role = Role::bias};
  for (Param* param : {&weight, &bias}) {
    param->heads = layer.heads;
    param->value_heads = layer.value_heads;
  }
  weight.in_out = layer.in_out;
  int64_t out = 0;
  for (const auto& part : layer.parts) {
    const Shape shape = layer.in_out ? Shape{in, part.out} : Shape{part.out, in};
    weight.checkpoint.push_back({with_suffix(part.name, "weight"), shape, out * in});
    bias.checkpoint.push_back({with_suffix(part.name, "bias"), {part.out}, out});
    out += part.out;
  }
  if (layer.by_head > 0) {
    for (Param* param : {&weight, &bias}) param->checkpoint = by_head(*param, layer.by_head);
  }
  const Shape shape = layer.in_out ? Shape{in, out} : Shape{out, in};
  const ValueId w = param(with_suffix(name, "weight"), shape, std::move(weight));
  const ValueId b =
      layer.bias ? param(with_suffix(name, "bias"), {out}, std::move(bias)) : ValueId{};
  return ops::linear(
      builder_, name,
      {.x = x, .weight = w, .bias = b, .residual = residual, .weight_in_out = layer.in_out});
}

// At first a norm multiplies by 1.
ValueId Emitter::norm_weight(std::string_view name, int64_t width, const parts::Norm& norm,
                             const std::string& tensor) {
  const Init init = norm.offset == 1 ? kZeros : Init{Init::Kind::constant, 1 - norm.offset};
  return param(with_suffix(name, "weight"), {width}, Role::norm, init,
               with_suffix(tensor, "weight"));
}

Emitter::NormParams Emitter::norm_params(std::string_view name, int64_t width,
                                         const parts::Norm& norm, const std::string& tensor) {
  NormParams p;
  p.weight = norm_weight(name, width, norm, tensor);
  if (norm.kind == parts::Norm::Kind::layer_norm) {
    p.bias =
        param(with_suffix(name, "bias"), {width}, Role::bias, kZeros, with_suffix(tensor, "bias"));
  }
  return p;
}

ValueId Emitter::norm(std::string_view name, ValueId x, const parts::Norm& norm,
                      const std::string& tensor) {
  const auto [weight, bias] = norm_params(name, builder_.shape(x).back(), norm, tensor);
  if (norm.kind == parts::Norm::Kind::rms_norm) {
    return ops::rms_norm(builder_, name,
                         {.x = x, .weight = weight, .eps = norm.eps, .offset = norm.offset});
  }
  return ops::layer_norm(builder_, name, {.x = x, .weight = weight, .bias = bias, .eps = norm.eps});
}

ops::ResidualNorm Emitter::residual_norm(std::string_view name, ValueId x, ValueId delta,
                                         const parts::Norm& norm, const std::string& tensor) {
  if (!delta.valid()) return {.h = x, .y = this->norm(name, x, norm, tensor)};
  const auto [weight, bias] = norm_params(name, builder_.shape(x).back(), norm, tensor);
  if (norm.kind == parts::Norm::Kind::rms_norm) {
    return ops::residual_rms_norm(
        builder_, name,
        {.x = x, .delta = delta, .weight = weight, .eps = norm.eps, .offset = norm.offset});
  }
  return ops::residual_layer_norm(
      builder_, name, {.x = x, .delta = delta, .weight = weight, .bias = bias, .eps = norm.eps});
}

ValueId Emitter::qk_norm(std::string_view name, ValueId qkv, const parts::Attention& a,
                         const parts::Norm& norm, const std::string& q, const std::string& k) {
  const bool alone = a.qk_norm == parts::Attention::QkNorm::head;
  const auto weight = [&](std::string_view part, int64_t heads, const std::string& tensor) {
    return norm_weight(with_suffix(name, part), alone ? a.D : heads * a.D, norm, tensor);
  };
  return ops::qk_norm(builder_, name,
                      {.qkv = qkv,
                       .q_weight = weight("q", a.H, q),
                       .k_weight = weight("k", a.K, k),
                       .heads = a.H,
                       .kv_heads = a.K,
                       .head_dim = a.D,
                       .eps = norm.eps,
                       .offset = norm.offset});
}

ValueId Emitter::activation(std::string_view name, ValueId x, parts::Activation kind) {
  using parts::Activation;
  if (kind == Activation::swiglu) return ops::swiglu(builder_, name, x);
  if (kind == Activation::relu) return ops::relu(builder_, name, x);
  if (kind == Activation::geglu) return ops::swiglu(builder_, name, x, /*gelu=*/true);
  return ops::gelu(builder_, name, x, /*tanh=*/kind == Activation::gelu_tanh);
}

ValueId Emitter::dropout(std::string_view name, ValueId x, double p) {
  return p > 0 ? ops::dropout(builder_, name, x, p, random()) : x;
}

}  // namespace snug
