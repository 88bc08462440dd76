// The update ops by their checks, and what their rules promise: bytes, parts, several steps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "base/rng.h"
#include "ops/optimizer/adam_mini.h"
#include "ops/optimizer/adamw.h"
#include "ops/optimizer/adamw8bit.h"
#include "ops/optimizer/lion.h"
#include "ops/optimizer/sgd.h"
#include "ops/optimizer/update_rule.h"
#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"
#include "ops/testing/run_op.h"

namespace snug::ops {
namespace {

using ::testing::HasSubstr;

TEST(AdamW, Checks) { check_op(adamw_def); }
TEST(AdamW8bit, Checks) { check_op(adamw8bit_def); }
TEST(AdamMini, Checks) { check_op(adam_mini_def); }
TEST(Lion, Checks) { check_op(lion_def); }
TEST(Sgd, Checks) { check_op(sgd_def); }
TEST(SgdMomentum, Checks) { check_op(sgd_momentum_def); }
TEST(AdamWMaster, Checks) { check_op(adamw_master_def); }
TEST(AdamW8bitMaster, Checks) { check_op(adamw8bit_master_def); }
TEST(AdamMiniMaster, Checks) { check_op(adam_mini_master_def); }
TEST(LionMaster, Checks) { check_op(lion_master_def); }
TEST(SgdMaster, Checks) { check_op(sgd_master_def); }
TEST(SgdMomentumMaster, Checks) { check_op(sgd_momentum_master_def); }

using Numbers = std::vector<double>;

// A parameter and its state, from zero bytes on, under one rule.
struct Trained {
  UpdateRule rule;
  RefTensor param;
  std::vector<RefTensor> states;
  double lr = 0.01;
  int64_t steps = 0;

  Trained(UpdateRule r, Type type, Numbers start)
      : rule(std::move(r)), param{type, std::move(start)} {
    rule.attrs.set("key", "update.w");
    for (const UpdateState& s : rule.states)
      states.push_back({s.type, Numbers(static_cast<size_t>(s.type.shape.elements()))});
  }

  void step(const Numbers& grad, double scale = 1) {
    const auto out = run_op(*rule.def, inputs(grad, scale), rule.attrs);
    param = out[0];
    states.assign(out.begin() + 1, out.end());
  }

  // Of the next step.
  std::vector<RefTensor> inputs(const Numbers& grad, double scale = 1) {
    std::vector<RefTensor> inputs{param, {{Dtype::f32, param.shape()}, grad}};
    inputs.insert(inputs.end(), states.begin(), states.end());
    inputs.push_back(scalar(Dtype::f32, lr));
    inputs.push_back(scalar(Dtype::i64, static_cast<double>(++steps)));
    inputs.push_back(scalar(Dtype::f32, scale));
    inputs.push_back(scalar(Dtype::i64, 3));
    return inputs;
  }
};

Type f32(Shape shape) { return {Dtype::f32, shape}; }
Param role(Role role) { return {.role = role}; }

Numbers noise(size_t n, uint64_t seed, double size = 1) {
  Numbers x(n);
  for (size_t i = 0; i < n; ++i) x[i] = size * normal_pair(seed, i)[0];
  return x;
}

double distance(const Numbers& a, const Numbers& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return std::sqrt(sum);
}

// --- arithmetic ----------------------------------------------------------------------------------

// Whatever the gradient's size, the first step moves by lr against its sign, after the decay.
TEST(AdamW, FirstStepIsLrAgainstTheSign) {
  Trained t(adamw_rule(f32({3}), {}, {.weight_decay = 0.1}), f32({3}), {1, 1, 1});
  t.step({1e-3, -50, 0});
  const double decayed = 1 - 0.01 * 0.1;
  EXPECT_NEAR(t.param.v[0], decayed - 0.01, 1e-6);
  EXPECT_NEAR(t.param.v[1], decayed + 0.01, 1e-6);
  EXPECT_NEAR(t.param.v[2], decayed, 1e-7);
}

TEST(SgdMomentum, StepsAsTorch) {
  Trained t(sgd_rule(f32({3}), {}, {}), f32({3}), {1, -2, 3});
  t.lr = 0.1;
  t.step({.5, -1, 2});
  t.step({.25, 3, -1});
  t.step({-1, .5, .5});
  const Numbers torch{0.9169999957084656, -2.3489999771118164, 2.5980000495910645};
  EXPECT_LT(distance(t.param.v, torch), 1e-6);
  EXPECT_LT(distance(t.states[0].v, {-0.3700000047683716, 2.38999986648, 1.2199999094}), 1e-6);
}

TEST(Lion, StepsBySignsAlone) {
  Trained t(lion_rule(f32({3}), {}, {.beta1 = 0.9, .beta2 = 0.99}), f32({3}), {1, 1, 1});
  t.step({1e-5, -300, 0});
  EXPECT_LT(distance(t.param.v, {0.99, 1.01, 1}), 1e-7);
  t.step({-1e-7, -300, 0});  // the momentum of the first step is stronger
  EXPECT_LT(distance(t.param.v, {0.98, 1.02, 1}), 1e-6);
}

// With one part per element the mean is the element's own square.
TEST(AdamMini, IsAdamWWhenEveryElementIsAPart) {
  const Type type = f32({40});
  UpdateRule mini = adam_mini_rule(type, role(Role::norm), {.weight_decay = 0.1});
  mini.attrs.set("groups", "40x1");
  mini.states[1].type = f32({40});
  Trained a(adamw_rule(type, {}, {.weight_decay = 0.1}), type, noise(40, 1));
  Trained b(mini, type, noise(40, 1));
  for (uint64_t step = 0; step < 5; ++step) {
    a.step(noise(40, 10 + step), 0.5);
    b.step(noise(40, 10 + step), 0.5);
  }
  EXPECT_LT(distance(a.param.v, b.param.v), 1e-6);
  EXPECT_LT(distance(a.states[1].v, b.states[1].v), 1e-6);
}

// What is kept in fewer bits follows the exact state, over gradients of very different sizes.
TEST(Update, SmallStateIsCloseToExact) {
  constexpr size_t n = 9001;
  const Type type = f32({n});
  const Numbers start = noise(n, 1);
  const auto run = [&](const UpdateRule& rule) {
    Trained t(rule, type, start);
    for (uint64_t step = 0; step < 30; ++step) {
      Numbers grad = noise(n, 50 + step, 0.3);
      for (size_t i = 0; i < n; ++i)
        grad[i] = (grad[i] + 0.2) * std::pow(10.0, -static_cast<double>(i % 3));
      t.step(grad);
    }
    return t.param.v;
  };
  const Numbers exact = run(adamw_rule(type, role(Role::matrix), {}));
  const double moved = distance(exact, start);
  EXPECT_LT(distance(run(adamw8bit_rule(type, role(Role::matrix), {})), exact), 0.05 * moved);
  EXPECT_LT(distance(run(adamw_rule(type, {}, {.state = Dtype::bf16})), exact), 0.05 * moved);
}

TEST(Update, SameBitsOnAnyNumberOfThreads) {
  constexpr int64_t rows = 200, columns = 1001, n = rows * columns;
  const Type type{Dtype::bf16, {rows, columns}};
  const auto bits = [&] {
    std::vector<Numbers> all;
    for (auto rule : {adamw_rule, adamw8bit_rule, adam_mini_rule, lion_rule, sgd_rule}) {
      const Param param{.role = Role::matrix, .in_out = true};
      Trained t(rule(type, param, {.state = Dtype::bf16}), type, noise(n, 1));
      t.step(noise(n, 2));
      all.push_back(t.param.v);
      for (const RefTensor& s : t.states) all.push_back(s.v);
    }
    return all;
  };
  EXPECT_TRUE(with_threads(1, bits) == with_threads(3, bits));
}

// --- masters -------------------------------------------------------------------------------------

TEST(MasterUpdate, MatchesUpdateRoundedToNearest) {
  constexpr int64_t rows = 41, columns = 101, n = rows * columns;
  const Type type = f32({rows, columns});
  const Param param{.role = Role::matrix, .in_out = true};
  const UpdateOptions options[] = {{.state = Dtype::bf16, .weight_decay = 0.1},
                                   {.momentum = 0, .weight_decay = 0.1}};
  for (auto method : {adamw_rule, adamw8bit_rule, adam_mini_rule, lion_rule, sgd_rule}) {
    for (const UpdateOptions& o : options) {
      for (const Dtype half : {Dtype::bf16, Dtype::f16}) {
        Trained t(method(type, param, o), type, noise(n, 1));
        std::vector<RefTensor> inputs = t.inputs(noise(n, 2));
        const std::vector<RefTensor> apart = run_op(*t.rule.def, inputs, t.rule.attrs);
        const RefTensor weight{{half, type.shape}, Numbers(n)};
        inputs.insert(inputs.begin() + 1 + static_cast<std::ptrdiff_t>(apart.size()), weight);
        const std::vector<RefTensor> out = run_op(*t.rule.on_master, inputs, t.rule.attrs);
        ASSERT_EQ(out.size(), apart.size() + 1);
        for (size_t i = 0; i < apart.size(); ++i)
          EXPECT_TRUE(out[i].v == apart[i].v) << t.rule.on_master->kind << " output " << i;
        const std::vector<std::byte> nearest = to_bytes({weight.type, apart[0].v});
        EXPECT_TRUE(out.back().v == from_bytes(weight.type, nearest.data()).v)
            << t.rule.on_master->kind;
      }
    }
  }
}

// On the host an update has no old weight: it makes one in any case.
TEST(MasterUpdate, WeightIsComputedFromMaster) {
  constexpr int64_t n = 9001;
  const Type type = f32({n});
  for (auto method : {adamw_rule, adamw8bit_rule, adam_mini_rule, lion_rule, sgd_rule}) {
    for (const Dtype half : {Dtype::bf16, Dtype::f16}) {
      Trained t(method(type, role(Role::bias), {.state = Dtype::bf16}), type, noise(n, 1));
      std::vector<RefTensor> inputs = t.inputs(noise(n, 2));
      const auto place = inputs.begin() + 2 + static_cast<std::ptrdiff_t>(t.states.size());
      const size_t port = static_cast<size_t>(place - inputs.begin());
      inputs.insert(place, RefTensor{{half, type.shape}, Numbers(n)});
      const auto want = run_op(*t.rule.on_master, inputs, t.rule.attrs);
      inputs[port] = absent();
      Attrs attrs = t.rule.attrs;
      attrs.set("weight", std::string(name_of(half)));
      const auto got = run_op(*t.rule.on_master, inputs, attrs);
      for (size_t o = 0; o < want.size(); ++o)
        EXPECT_TRUE(got[o].v == want[o].v) << t.rule.on_master->kind << " output " << o;
      const int32_t off = 0;
      const auto skipped = run_op(*t.rule.on_master, inputs, attrs, &off);
      const RefTensor master = from_bytes(type, to_bytes(inputs[0]).data());
      EXPECT_TRUE(skipped[0].v == master.v) << t.rule.on_master->kind;
      for (size_t s = 0; s < t.states.size(); ++s)
        EXPECT_TRUE(skipped[1 + s].v == inputs[2 + s].v) << t.rule.on_master->kind;
      const std::vector<std::byte> nearest = to_bytes({{half, type.shape}, master.v});
      EXPECT_TRUE(skipped.back().v == from_bytes({half, type.shape}, nearest.data()).v);
    }
  }
}

// --- rules ---------------------------------------------------------------------------------------

double bytes_per_element(const UpdateRule& rule, const Shape& shape) {
  return static_cast<double>(rule.state_bytes()) / static_cast<double>(shape.elements());
}

TEST(UpdateRule, StateIsAsSmallAsPromised) {
  const Shape shape{768, 3072};
  const Param matrix = role(Role::matrix);
  EXPECT_EQ(bytes_per_element(adamw_rule(f32(shape), matrix, {}), shape), 8);
  EXPECT_EQ(bytes_per_element(adamw_rule(f32(shape), matrix, {.state = Dtype::bf16}), shape), 4);
  EXPECT_LE(bytes_per_element(adamw8bit_rule(f32(shape), matrix, {}), shape), 2.1);
  EXPECT_LE(bytes_per_element(adam_mini_rule(f32(shape), matrix, {}), shape), 4.1);
  EXPECT_EQ(bytes_per_element(lion_rule(f32(shape), matrix, {}), shape), 4);
  EXPECT_EQ(bytes_per_element(sgd_rule(f32(shape), matrix, {}), shape), 4);
  EXPECT_EQ(bytes_per_element(sgd_rule(f32(shape), matrix, {.momentum = 0}), shape), 0);
}

TEST(UpdateRule, SomeTensorsKeepAdamWsState) {
  for (Role r : {Role::embedding, Role::head, Role::position}) {
    EXPECT_EQ(adamw8bit_rule(f32({512, 512}), role(r), {}).def, &adamw_def);
    EXPECT_EQ(adam_mini_rule(f32({512, 512}), role(r), {}).def, &adamw_def);
  }
  EXPECT_EQ(adamw8bit_rule(f32({4095}), role(Role::norm), {}).def, &adamw_def);
  EXPECT_EQ(adamw8bit_rule(f32({4096}), role(Role::norm), {}).def, &adamw8bit_def);
}

TEST(UpdateRule, AdamMiniCutsByHeadsAndOutputs) {
  Param qkv{.role = Role::matrix, .in_out = true, .heads = 36, .value_heads = 12};
  EXPECT_EQ(adam_mini_groups(f32({768, 2304}), qkv), "24x64,768x1");
  EXPECT_EQ(adam_mini_parts("24x64,768x1"), 792);
  qkv = {.role = Role::matrix, .heads = 6, .value_heads = 1};
  EXPECT_EQ(adam_mini_groups(f32({48, 32}), qkv), "5x8,8x1");
  EXPECT_EQ(adam_mini_groups(f32({3072, 768}), role(Role::matrix)), "3072x1");
  EXPECT_EQ(adam_mini_groups(f32({768}), role(Role::norm)), "1x768");
  EXPECT_EQ(adam_mini_groups(f32({2304}), {.role = Role::bias, .heads = 36, .value_heads = 12}),
            "1x2304");
  EXPECT_EQ(adam_mini_groups(f32({50257, 768}), role(Role::embedding)), "");
}

TEST(UpdateRule, TwoByteStateNeedsSeed) {
  const Type half{Dtype::f16, {8}};
  EXPECT_FALSE(adamw_rule(f32({8}), {}, {}).needs_seed(f32({8})));
  EXPECT_TRUE(adamw_rule(f32({8}), {}, {.state = Dtype::bf16}).needs_seed(f32({8})));
  EXPECT_TRUE(sgd_rule(half, {}, {.momentum = 0}).needs_seed(half));
}

// --- programs ------------------------------------------------------------------------------------

class UpdateProgram : public ::testing::Test {
 protected:
  ValueId value(std::string name, Type type) {
    return add_shared(module, std::move(name), type, Category::optimizer, Scope::persistent);
  }
  ValueId scalar_of(const char* name, Dtype dtype) { return value(name, {dtype, {}}); }
  void emit(const UpdateRule& rule, ValueId param, ValueId weight = {}) {
    std::vector<ValueId> states;
    for (const UpdateState& s : rule.states)
      states.push_back(value(fmt::format("{}.{}", s.name, ++made), s.type));
    emit_update(b, "p.update", rule,
                {.param = param,
                 .grad = g,
                 .states = states,
                 .lr = lr,
                 .step = step,
                 .scale = lr,
                 .seed = seed,
                 .weight = weight},
                finite);
  }

  int made = 0;
  Module module{.name = "update"};
  Builder b{module, "update"};
  ValueId p = value("p", f32({8, 4})), g = value("g", f32({8, 4}));
  ValueId half = value("half", {Dtype::bf16, {8, 4}});
  ValueId lr = scalar_of("lr", Dtype::f32), step = scalar_of("step", Dtype::i64);
  ValueId seed = scalar_of("seed", Dtype::i64), finite = scalar_of("finite", Dtype::i32);
};

TEST_F(UpdateProgram, WritesInPlaceUnderThePredicate) {
  for (auto rule : {adamw_rule, adamw8bit_rule, adam_mini_rule, lion_rule, sgd_rule}) {
    emit(rule(f32({8, 4}), role(Role::matrix), {}), p);
    const Op& op = b.last();
    EXPECT_EQ(op.predicate, finite);
    EXPECT_EQ(module[op.outputs[0]].base, p);
    for (size_t o = 1; o < op.outputs.size(); ++o)
      EXPECT_EQ(module[op.outputs[o]].base, op.inputs[o + 1]) << op.def->kind;
    EXPECT_FALSE(op.inputs.back().valid()) << op.def->kind << " draws nothing in f32";
  }
}

TEST_F(UpdateProgram, WritesWeightOfMaster) {
  for (auto rule : {adamw_rule, adamw8bit_rule, adam_mini_rule, lion_rule, sgd_rule}) {
    emit(rule(f32({8, 4}), role(Role::matrix), {}), p, half);
    const Op& op = b.last();
    EXPECT_EQ(op.predicate, finite);
    EXPECT_EQ(module[op.outputs.front()].base, p);
    EXPECT_EQ(module[op.outputs.back()].base, half);
    EXPECT_FALSE(op.inputs.back().valid()) << op.def->kind << " rounds the weight to nearest";
    // In addition to what the update alone moves, the weight is written and not read.
    emit(rule(f32({8, 4}), role(Role::matrix), {}), p);
    const Cost alone = cost_of(module, b.last(), Backend::cpu);
    const Cost cost = cost_of(module, *(&b.last() - 1), Backend::cpu);
    EXPECT_EQ(cost.bytes_read, alone.bytes_read);
    EXPECT_EQ(cost.bytes_written, alone.bytes_written + 8 * 4 * 2);
  }
}

TEST_F(UpdateProgram, RefusesWeightsNotRoundedFromMaster) {
  const UpdateRule lion = lion_rule(f32({8, 4}), {}, {});
  const auto refused = [&](ValueId param, ValueId weight) {
    return refusal_of([&] { emit(lion, param, weight); });
  };
  EXPECT_THAT(refused(p, value("w", f32({8, 4}))), HasSubstr("weight is f32[8,4], not bf16[8,4]"));
  EXPECT_THAT(refused(p, value("short", {Dtype::bf16, {8, 3}})),
              HasSubstr("weight is bf16[8,3], not bf16[8,4]"));
  EXPECT_THAT(refused(half, value("h", {Dtype::bf16, {8, 4}})),
              HasSubstr("a master is in f32, not bf16[8,4]"));
  g = value("dh", {Dtype::f16, {8, 4}});
  EXPECT_THAT(refused(p, half), HasSubstr("a gradient of f16 is none of a weight of bf16"));
}

TEST_F(UpdateProgram, RoundingDrawsByOwnName) {
  emit(lion_rule({Dtype::bf16, {8, 4}}, {}, {}), half);
  EXPECT_EQ(b.last().inputs.back(), seed);
  EXPECT_EQ(b.last().attrs.s("key"), "p.update");
}

TEST_F(UpdateProgram, RefusesWrongTypes) {
  const auto refused = [&](UpdateRule rule, ValueId param) {
    return refusal_of([&] { emit(rule, param); });
  };
  const UpdateRule adamw = adamw_rule(f32({8, 4}), {}, {});
  EXPECT_THAT(refused(adamw, value("w", f32({4, 8}))),
              HasSubstr("adamw 'p.update': m is f32[8,4], not f32[4,8]"));
  EXPECT_THAT(refused(adamw, value("i", {Dtype::i8, {8, 4}})),
              HasSubstr("cannot update a parameter of type i8[8,4]"));
  EXPECT_THAT(refused(adamw_rule(f32({8, 4}), {}, {.state = Dtype::f16}), p),
              HasSubstr("m is f16[8,4], not f32[8,4]"));
  UpdateRule mixed = adamw;
  mixed.states[1].type.dtype = Dtype::bf16;
  EXPECT_THAT(refused(mixed, p), HasSubstr("m is f32[8,4], but v bf16[8,4]"));
  const ValueId f32_grad = std::exchange(g, value("dh", {Dtype::f16, {8, 4}}));
  EXPECT_THAT(refused(adamw, half),
              HasSubstr("a gradient of f16 cannot update a parameter of bf16"));
  g = f32_grad;
  seed = {};
  EXPECT_THAT(refused(adamw, half), HasSubstr("needs a seed and a key"));
  step = lr;
  EXPECT_THAT(refused(adamw, p), HasSubstr("step is f32[], not i64[]"));
}

TEST_F(UpdateProgram, RefusesNon8BitState) {
  const Shape shape{64, 64};
  const ValueId w = value("w", f32(shape));
  g = value("dw", f32(shape));
  UpdateRule rule = adamw8bit_rule(f32(shape), role(Role::matrix), {});
  rule.states[0].type.dtype = Dtype::bf16;
  EXPECT_THAT(refusal_of([&] { emit(rule, w); }),
              HasSubstr("8-bit state cannot be kept in m bf16[64,64]: it takes u8[64,64]"));
  rule = adamw8bit_rule(f32(shape), role(Role::matrix), {});
  rule.states[3].type = f32({15});
  EXPECT_THAT(refusal_of([&] { emit(rule, w); }), HasSubstr("v_scale is f32[15], not f32[16]"));
}

TEST_F(UpdateProgram, RefusesPartsWithGaps) {
  UpdateRule rule = adam_mini_rule(f32({8, 4}), role(Role::matrix), {});
  for (const char* groups : {"", "8", "8x", "x1", "0x8", "8x1,", "8x1 ", "-1x8"}) {
    rule.attrs.set("groups", groups);
    EXPECT_THAT(refusal_of([&] { emit(rule, p); }), HasSubstr("not a list such as")) << groups;
  }
  rule.attrs.set("groups", "2x3,1x1");
  EXPECT_THAT(refusal_of([&] { emit(rule, p); }),
              HasSubstr("groups '2x3,1x1' cover 7 outputs, but f32[8,4] has 8"));
}

}  // namespace
}  // namespace snug::ops
