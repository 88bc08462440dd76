// Two models of two layers for the tests of passes, small enough to read as text, and the questions
// that those tests ask of programs.
//
//   Module module = with_backward(two_attentions, {.grad_dtype = Dtype::bf16});
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verifier.h"
#include "ops/activation/gelu.h"
#include "ops/attention/attention.h"
#include "ops/embedding/embedding.h"
#include "ops/linear/linear.h"
#include "ops/loss/cross_entropy.h"
#include "ops/loss/linear_cross_entropy.h"
#include "ops/norm/rms_norm.h"
#include "ops/registry.h"
#include "passes/passes.h"
#include "techniques/precision/precision.h"

namespace snug {

// Shared values by name, as a model's programs share them.
class SharedValues {
 public:
  explicit SharedValues(Module& module) : module_(module) {}

  ValueId input(const char* name, Type type) {
    return find_or_add(name, type, Category::inputs, Scope::step, {}, kNoLayer);
  }
  ValueId param(const std::string& name, Shape shape, Role role, int32_t layer = kNoLayer) {
    return find_or_add(name, {Dtype::f32, shape}, Category::params, Scope::persistent,
                       {.role = role,
                        .init = {Init::Kind::normal, 0.02},
                        .checkpoint = {{"model." + name, shape, 0}}},
                       layer);
  }

 private:
  ValueId find_or_add(const std::string& name, Type type, Category category, Scope scope,
                      Param param, int32_t layer) {
    const ValueId found = module_.find_shared(name);
    if (found.valid()) return found;
    return add_shared(module_, name, type, category, scope, std::move(param), layer);
  }

  Module& module_;
};

// x -> linear, gelu | norm, linear -> loss: fed floats, a bias, a norm and two matrices of C x C.
template <int64_t C>
Forward two_linears_of(Module& module, std::string_view program, bool) {
  constexpr int64_t B = 4;
  SharedValues shared(module);
  const ValueId x = shared.input("x", {Dtype::f32, {B, C}});
  const ValueId targets = shared.input("targets", {Dtype::i32, {B}});
  Builder b(module, program);
  ValueId h;
  {
    const auto layer = b.layer(0, "0");
    h = ops::linear(b, "linear",
                    {.x = x,
                     .weight = shared.param("0.weight", {C, C}, Role::matrix, 0),
                     .bias = shared.param("0.bias", {C}, Role::bias, 0)});
    h = ops::gelu(b, "act", h, /*tanh=*/true);
  }
  {
    const auto layer = b.layer(1, "1");
    h = ops::rms_norm(b, "norm", {.x = h, .weight = shared.param("1.norm", {C}, Role::norm, 1)});
    h = ops::linear(b, "linear",
                    {.x = h, .weight = shared.param("1.weight", {C, C}, Role::matrix, 1)});
  }
  return {ops::cross_entropy(b, "loss", {.logits = h, .targets = targets}), h};
}

inline Forward two_linears(Module& module, std::string_view program, bool training) {
  return two_linears_of<8>(module, program, training);
}

// embed -> (norm, qkv, mix, out) twice -> norm -> loss: standard attention with dropout, residual
// norms, and a head that is the embedding table.
inline Forward two_attentions(Module& module, std::string_view program, bool training) {
  constexpr int64_t B = 2, T = 16, C = 32, H = 2, V = 48;
  SharedValues shared(module);
  const ValueId tokens = shared.input("tokens", {Dtype::i32, {B, T}});
  const ValueId targets = shared.input("targets", {Dtype::i32, {B, T}});
  const ops::Random random{.seed = shared.input("seed", {Dtype::i64, {}}),
                           .step = shared.input("step", {Dtype::i64, {}}),
                           .sample = shared.input("sample", {Dtype::i64, {}})};
  const ValueId table = shared.param("embed.weight", {V, C}, Role::embedding);
  Builder b(module, program);
  ops::ResidualNorm stream{.h = ops::embedding(b, "embed", {.tokens = tokens, .table = table})};
  ValueId out;
  for (int32_t i = 0; i < 2; ++i) {
    const auto layer = b.layer(i, fmt::format("{}", i));
    auto param = [&](const char* name, Shape shape, Role role) {
      return shared.param(b.full_name(name), shape, role, i);
    };
    const ValueId norm = param("norm.weight", {C}, Role::norm);
    if (i == 0) {
      stream.y = ops::rms_norm(b, "norm", {.x = stream.h, .weight = norm});
    } else {
      stream = ops::residual_rms_norm(b, "norm", {.x = stream.h, .delta = out, .weight = norm});
    }
    const ValueId qkv = ops::linear(
        b, "qkv", {.x = stream.y, .weight = param("qkv.weight", {3 * C, C}, Role::matrix)});
    const ValueId mix = ops::attention(b, "mix",
                                       {.qkv = qkv,
                                        .heads = H,
                                        .kv_heads = H,
                                        .head_dim = C / H,
                                        .kind = ops::AttentionKind::standard,
                                        .dropout = training ? 0.1 : 0,
                                        .random = random});
    out = ops::linear(b, "out", {.x = mix, .weight = param("out.weight", {C, C}, Role::matrix)});
  }
  stream = ops::residual_rms_norm(
      b, "norm",
      {.x = stream.h, .delta = out, .weight = shared.param("norm.weight", {C}, Role::norm)});
  return {ops::linear_cross_entropy(
      b, "loss", {.x = stream.y, .weight = table, .targets = targets, .chunk = 16})};
}

inline void freeze(Module& module, std::string_view name) {
  Value& value = module[module.find_shared(name)];
  Param param = *value.param;
  param.trainable = false;
  value.param = std::make_shared<const Param>(std::move(param));
}

// --- as far as a pass ----------------------------------------------------------------------------

// The training and evaluation programs, in the recipe's precision.
struct Programs {
  Module module;
  Forward training, evaluation;
};
inline Programs with_forward(const ForwardBuilder& forward, const Recipe& recipe = {}) {
  Programs p{.module = {.name = "two layers"}};
  p.training = add_forward(p.module, forward, ProgramRole::training_first);
  p.evaluation = add_forward(p.module, forward, ProgramRole::evaluation);
  precision(p.module, recipe.precision);
  return p;
}

// The training program alone, with its backward.
inline Module with_backward(const ForwardBuilder& forward, const Recipe& recipe = {}) {
  Module module{.name = "two layers"};
  const Forward training = add_forward(module, forward, ProgramRole::training_first);
  precision(module, recipe.precision);
  autodiff(module, "micro_first", training, recipe);
  eliminate_dead(module);
  return module;
}

// --- questions -----------------------------------------------------------------------------------

inline std::vector<std::string> kinds(const Program& program) {
  std::vector<std::string> out;
  for (const Op& op : program.ops) out.emplace_back(op.def->kind);
  return out;
}

inline const Op& find(const Program& program, std::string_view name) {
  const auto at = std::ranges::find(program.ops, name, &Op::name);
  if (at == program.ops.end()) throw internal_error("no op '{}'", name);
  return *at;
}

// The ops that write into the bytes of `root`, in their order.
inline std::vector<const Op*> writers(const Module& module, const Program& program, ValueId root) {
  std::vector<const Op*> out;
  for (const Op& op : program.ops) {
    if (std::ranges::any_of(op.outputs, [&](ValueId id) { return module.root(id) == root; }))
      out.push_back(&op);
  }
  return out;
}

// What every pass leaves: a module that verifies and reads back from its text.
inline void expect_sound(const Module& module) {
  EXPECT_NO_THROW(verify(module));
  const std::string text = print(module);
  EXPECT_EQ(print(parse(text, ops::registry())), text);
}

}  // namespace snug
