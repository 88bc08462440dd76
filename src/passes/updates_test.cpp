// Masters, states and scalars of the update: what is kept of a parameter, and in which type.
#include "passes/updates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "base/timed_test.h"
#include "passes/testing/two_layers.h"
#include "techniques/optimizer/optimizer.h"

namespace snug {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

// Parameters of every kind with their gradients, and the program `update`.
Module updated(const Recipe& recipe) {
  Module module{.name = "parameters"};
  SharedValues shared(module);
  shared.param("embed", {128, 64}, Role::embedding);
  shared.param("qkv", {96, 64}, Role::matrix, 0);
  shared.param("small", {16, 16}, Role::matrix, 0);
  shared.param("bias", {64}, Role::bias, 1);
  shared.param("norm", {64}, Role::norm, 1);
  for (const char* name : {"embed", "qkv", "small", "bias", "norm"}) {
    const ValueId param = module.find_shared(name);
    module[param].type.dtype = recipe.precision;
    add_gradient(module, param, recipe.grad_dtype);
  }
  optimizer(module, recipe);
  expect_sound(module);
  return module;
}

std::map<std::string, std::string> states(const Module& module) {
  std::map<std::string, std::string> types;
  for (const Value& value : module.values) {
    if (value.category == Category::optimizer && value.shared())
      types[value.name] = value.type.text();
  }
  return types;
}

std::map<std::string, std::string> states(OptimizerKind kind, Dtype dtype = Dtype::f32) {
  return states(updated({.optimizer = kind, .state_dtype = dtype}));
}

TEST(Updates, MasterInheritsNameInitialValueAndCheckpoint) {
  const Module without = updated({});
  const Param before = *without[without.find_shared("qkv")].param;
  const Module module = updated({.precision = Dtype::bf16});
  const Value& master = module[module.find_shared("qkv")];
  EXPECT_EQ(master.category, Category::master);
  EXPECT_EQ(master.scope, Scope::persistent);
  EXPECT_EQ(master.type.text(), "f32[96,64]");
  EXPECT_EQ(master.layer, 0);
  EXPECT_EQ(*master.param, before);
  const Value& rounded = module[module.find_shared("qkv.bf16")];
  EXPECT_EQ(rounded.category, Category::params);
  EXPECT_EQ(rounded.type.text(), "bf16[96,64]");
  EXPECT_EQ(rounded.param->init, Init{});
  EXPECT_TRUE(rounded.param->checkpoint.empty());
  EXPECT_EQ(rounded.param->role, Role::matrix);
}

TEST(Updates, LoadProgramRoundsEveryMaster) {
  const Module module = updated({.precision = Dtype::f16});
  const Program& load = module.program("load");
  EXPECT_THAT(kinds(load), ::testing::AllOf(Contains("assign").Times(5), ::testing::SizeIs(5)));
  for (const char* name : {"embed", "qkv", "small", "bias", "norm"}) {
    const ValueId param = module.find_shared(std::string(name) + ".f16");
    const Op& op = find(load, std::string("load.") + name);
    EXPECT_THAT(op.inputs, Contains(module.find_shared(name)));
    EXPECT_EQ(module.root(op.outputs[0]), param);
    const auto round = writers(module, module.program("update"), param);
    ASSERT_EQ(round.size(), 1U);
    EXPECT_EQ(round[0]->name, std::string("update.") + name) << "the update rounds the copy too";
  }
  for (const Repeat& region : module.step) EXPECT_THAT(region.programs, Not(Contains("load")));
}

// Neighbours of one kind are one launch where the kernel takes many.
TEST(Updates, MasterUpdatesAndSumsOfSquaresAreConsecutive) {
  for (const auto& [kind, op] : {std::pair{OptimizerKind::adamw, "adamw_master"},
                                 {OptimizerKind::lion, "lion_master"},
                                 {OptimizerKind::sgd, "sgd_momentum_master"}}) {
    const Module module = updated({.precision = Dtype::bf16, .optimizer = kind});
    const char* sum = "sum_squares";
    EXPECT_THAT(
        kinds(module.program("update")),
        ::testing::ElementsAre(sum, sum, sum, sum, sum, "clip", "advance", op, op, op, op, op));
  }
}

TEST(Updates, ParametersAreUpdatedWithoutMasters) {
  for (const Recipe& recipe : {Recipe{}, Recipe{.precision = Dtype::bf16, .master = false}}) {
    const Module module = updated(recipe);
    EXPECT_LT(module.program_index("load"), 0);
    EXPECT_THAT(kinds(module.program("update")), Not(Contains("assign")));
    const Value& param = module[module.find_shared("qkv")];
    EXPECT_EQ(param.category, Category::params);
    EXPECT_EQ(param.type.dtype, recipe.precision);
  }
}

TEST(Updates, FrozenParameterHasNoGradientStateOrMaster) {
  Module module{.name = "frozen"};
  const Forward forward = add_forward(module, two_linears, ProgramRole::training_first);
  freeze(module, "0.weight");
  const Param param = *module[module.find_shared("0.weight")].param;
  const Recipe recipe{.precision = Dtype::bf16};
  precision(module, recipe.precision);
  autodiff(module, "micro_first", forward, recipe);
  optimizer(module, recipe);
  EXPECT_EQ(module[module.find_shared("0.weight")].type.dtype, Dtype::bf16);
  EXPECT_EQ(*module[module.find_shared("0.weight")].param, param) << "saved and loaded as it is";
  for (const char* none : {"grad.0.weight", "0.weight.m", "0.weight.bf16"})
    EXPECT_FALSE(module.find_shared(none).valid()) << none;
  EXPECT_TRUE(module.find_shared("1.weight.bf16").valid());
  expect_sound(module);
}

TEST(Updates, RefusesAModelWithNothingToTrain) {
  Module module{.name = "empty"};
  try {
    optimizer(module, {});
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("'empty' has no trainable parameter"));
  }
}

TEST(Updates, StatesMatchOptimizer) {
  using Kind = OptimizerKind;
  auto adamw = states(Kind::adamw);
  EXPECT_EQ(adamw.size(), 10U);
  EXPECT_EQ(adamw["qkv.v"], "f32[96,64]");
  EXPECT_EQ(states(Kind::adamw, Dtype::bf16)["qkv.v"], "bf16[96,64]");

  auto eight = states(Kind::adamw8bit);
  EXPECT_EQ(eight["qkv.m"], "u8[96,64]");
  EXPECT_EQ(eight["qkv.m_scale"], "f32[24]") << "one per 256 elements";
  EXPECT_EQ(eight["embed.m"], "f32[128,64]") << "embeddings keep all of it";
  EXPECT_EQ(eight["small.v"], "f32[16,16]") << "so do small tensors";

  auto mini = states(Kind::adam_mini);
  EXPECT_EQ(mini["qkv.m"], "f32[96,64]");
  EXPECT_EQ(mini["qkv.v"], "f32[96]") << "one per output";
  EXPECT_EQ(mini["norm.v"], "f32[1]");
  EXPECT_EQ(mini["embed.v"], "f32[128,64]");

  EXPECT_EQ(states(Kind::lion).size(), 5U);
  EXPECT_EQ(states(Kind::lion, Dtype::bf16)["norm.m"], "bf16[64]");
  EXPECT_EQ(states(Kind::sgd)["qkv.momentum"], "f32[96,64]");
  EXPECT_TRUE(states(updated({.optimizer = Kind::sgd, .momentum = 0})).empty());
}

TEST(Updates, StatesFollowMaster) {
  auto types = states(updated({.precision = Dtype::bf16}));
  EXPECT_EQ(types["qkv.m"], "f32[96,64]");
  EXPECT_THAT(types, Not(Contains(::testing::Key("qkv.bf16.m"))));
}

TEST(Updates, NormsAndBiasesDoNotDecay) {
  for (const auto kind : {OptimizerKind::adamw, OptimizerKind::adamw8bit, OptimizerKind::adam_mini,
                          OptimizerKind::lion, OptimizerKind::sgd}) {
    const Module module =
        updated({.precision = Dtype::bf16, .optimizer = kind, .weight_decay = 0.25});
    auto decay = [&](const char* name) {
      return find(module.program("update"), std::string("update.") + name).attrs.f("weight_decay");
    };
    for (const char* name : {"embed", "qkv", "small"}) EXPECT_EQ(decay(name), 0.25) << name;
    for (const char* name : {"bias", "norm"}) EXPECT_EQ(decay(name), 0) << name;
  }
}

TEST(Updates, SeedIsFedOnlyForUnbiasedRounding) {
  auto has_seed = [](const Recipe& recipe) { return updated(recipe).find_shared("seed").valid(); };
  EXPECT_FALSE(has_seed({}));
  EXPECT_FALSE(has_seed({.precision = Dtype::bf16})) << "a master is rounded to nearest";
  EXPECT_FALSE(has_seed({.optimizer = OptimizerKind::adamw8bit}));
  EXPECT_TRUE(has_seed({.precision = Dtype::bf16, .master = false}));
  EXPECT_TRUE(has_seed({.state_dtype = Dtype::bf16}));
  // Only the updates that store two bytes read it.
  const Module module =
      updated({.optimizer = OptimizerKind::adamw8bit, .state_dtype = Dtype::bf16});
  const ValueId seed = module.find_shared("seed");
  EXPECT_THAT(find(module.program("update"), "update.small").inputs, Contains(seed));
  EXPECT_THAT(find(module.program("update"), "update.qkv").inputs, Not(Contains(seed)));
}

TEST(Updates, NonFiniteNormSkipsAllUpdates) {
  const Module module = updated({});
  const Program& program = module.program("update");
  const Op& clip = find(program, "norm.clip");
  for (const char* name : {"embed", "qkv", "small", "bias", "norm"}) {
    const Op& squares = find(program, fmt::format("norm.{}.squares", name));
    EXPECT_THAT(clip.inputs, Contains(squares.outputs[0]));
    EXPECT_EQ(squares.layer, module[module.find_shared(name)].layer);
  }
  EXPECT_EQ(clip.layer, kNoLayer);
  EXPECT_EQ(module.root(clip.outputs[0]), module.find_shared("grad_norm"));
  const ValueId finite = clip.outputs[2];
  for (const Op& op : program.ops) {
    const bool updates = op.name.starts_with("update");
    EXPECT_EQ(op.predicate, updates ? finite : ValueId{}) << op.name;
  }
}

TEST(Updates, NonFiniteLossSkipsUpdates) {
  Module module = with_backward(two_linears);
  optimizer(module, {});
  EXPECT_THAT(find(module.program("update"), "norm.clip").inputs,
              Contains(module.find_shared("loss_sum")));
  expect_sound(module);
}

TEST(Updates, OnlyADynamicLossScaleIsAdjusted) {
  auto adjusted = [](const LossScale& scale) {
    const Module module = [&] {
      Module m = with_backward(two_linears, {.loss_scale = scale});
      optimizer(m, {.loss_scale = scale});
      expect_sound(m);
      return m;
    }();
    const Program& update = module.program("update");
    EXPECT_THAT(find(update, "norm.clip").inputs, Contains(module.find_shared("loss_scale")));
    const auto next = std::ranges::find(update.ops, "loss_scale.next", &Op::name);
    EXPECT_TRUE(next == update.ops.end() || next->layer == kNoLayer);
    return next != update.ops.end();
  };
  EXPECT_TRUE(adjusted({.start = 65536, .dynamic = true}));
  EXPECT_FALSE(adjusted({.start = 1024}));
}

TEST(Updates, ManyParametersTakeLinearTime) {
  const auto make = [](int parameters) {
    Module module{.name = "many"};
    for (int i = 0; i < parameters; ++i) {
      const ValueId param = add_shared(module, fmt::format("p.{}", i), {Dtype::bf16, {16}},
                                       Category::params, Scope::persistent, {.role = Role::matrix});
      add_gradient(module, param, Dtype::bf16);
    }
    return module;
  };
  const auto update = [](Module& module) {
    optimizer(module, {.precision = Dtype::bf16, .master = false, .state_dtype = Dtype::bf16});
  };
  Module many = make(40'000);
  update(many);
  EXPECT_EQ(many.program(ProgramRole::update).ops.size(), 2 * 40'000U + 2);
  EXPECT_LT(growth_by_8(5'000, make, update), kLinearGrowth);
}

}  // namespace
}  // namespace snug
