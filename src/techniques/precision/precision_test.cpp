// Which values change their type, and which do not.
#include <gtest/gtest.h>

#include <map>

#include "passes/testing/two_layers.h"
#include "settings/parse.h"

namespace snug {
namespace {

// Types by name of what one program's ops make.
std::map<std::string, Dtype> made(const Module& module, std::string_view program) {
  std::map<std::string, Dtype> types;
  for (const Op& op : module.program(program).ops) {
    for (ValueId id : op.outputs) types[module[id].name] = module[id].type.dtype;
  }
  return types;
}

class Precision : public ::testing::TestWithParam<Dtype> {};

TEST_P(Precision, StatisticsAndLossKeepTheirPrecision) {
  const Programs p = with_forward(two_attentions, {.precision = GetParam()});
  for (const Value& value : p.module.values) {
    if (value.category != Category::params) continue;
    EXPECT_EQ(value.type.dtype, GetParam()) << value.name;
  }
  for (const char* program : {"micro_first", "eval"}) {
    SCOPED_TRACE(program);
    for (const auto& [name, dtype] : made(p.module, program)) {
      const bool exact = name.ends_with("loss") || name.ends_with(".rstd");
      EXPECT_EQ(dtype, exact ? Dtype::f32 : GetParam()) << name;
    }
  }
  expect_sound(p.module);
}

TEST_P(Precision, FedFloatsKeepTypeAndAreCastOncePerProgram) {
  Module module{.name = "fed twice"};
  const Forward first = add_forward(module, two_linears, ProgramRole::training_first);
  add_forward(module, two_linears, ProgramRole::evaluation);
  Builder b(module, "eval");
  ops::gelu(b, "another reader", module.find_shared("x"), true);
  precision(module, GetParam());
  EXPECT_EQ(module[module.find_shared("x")].type.dtype, Dtype::f32);
  EXPECT_EQ(module[module.find_shared("targets")].type.dtype, Dtype::i32);
  EXPECT_EQ(module[first.loss].type.dtype, Dtype::f32);
  for (const char* program : {"micro_first", "eval"}) {
    SCOPED_TRACE(program);
    const std::vector<std::string> ops = kinds(module.program(program));
    EXPECT_EQ(std::ranges::count(ops, "cast"), 1);
    EXPECT_EQ(ops.front(), "cast");
  }
  const Op& reader = find(module.program("eval"), "another reader");
  EXPECT_EQ(module[reader.inputs[0]].name, "x.cast");
  EXPECT_EQ(module[reader.outputs[0]].type.dtype, GetParam());
  expect_sound(module);
}

TEST_P(Precision, GradientsHaveTypeOfForward) {
  const Module module = with_backward(two_linears, {.precision = GetParam()});
  for (const Op& op : module.program("micro_first").ops) {
    if (op.phase != Phase::backward) continue;
    for (ValueId id : op.outputs) {
      if (module[id].category != Category::activations) continue;
      EXPECT_EQ(module[id].type.dtype, GetParam()) << module[id].name;
    }
  }
  EXPECT_EQ(module[module.find_shared("dloss")].type.dtype, Dtype::f32);
  EXPECT_EQ(module[module.find_shared("loss_sum")].type.dtype, Dtype::f32);
  expect_sound(module);
}

TEST_P(Precision, WholeCompilesAreSound) {
  for (const bool master : {true, false}) {
    expect_sound(compile("two layers", two_attentions,
                         {.accum = 2,
                          .recompute = parse_setting<RecomputePolicy>("full", "recompute"),
                          .compress = CompressKind::int8,
                          .precision = GetParam(),
                          .master = master}));
  }
}

INSTANTIATE_TEST_SUITE_P(Halves, Precision, ::testing::Values(Dtype::bf16, Dtype::f16),
                         [](const auto& p) { return std::string(name_of(p.param)); });

TEST(PrecisionOfOne, Fp32ChangesNothing) {
  Programs p = with_forward(two_linears);
  const std::string before = print(p.module);
  precision(p.module, Dtype::f32);
  EXPECT_EQ(print(p.module), before);
}

}  // namespace
}  // namespace snug
