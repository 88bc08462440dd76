// The passes that are too short for a file of tests each; golden texts of all stand in
// tests/golden.
#include "passes/passes.h"
#include "compile/compile.h"

#include <gtest/gtest.h>

#include "passes/testing/two_layers.h"

namespace snug {
namespace {

TEST(InPlace, ReusesDeadBytes) {
  const Module module = compile("two layers", two_linears, {});
  // Evaluation keeps nothing for backward, so gelu works in place; training needs its input again.
  EXPECT_FALSE(module[find(module.program("eval"), "0.act").outputs[0]].owns_bytes());
  EXPECT_TRUE(module[find(module.program("micro_first"), "0.act").outputs[0]].owns_bytes());
  expect_sound(module);
}

TEST(EliminateDead, KeepsWritesToSharedValues) {
  Module module{.name = "dead"};
  const Forward forward = add_forward(module, two_linears, ProgramRole::evaluation);
  bind_loss(module, "eval", forward.loss);
  Builder b(module, "eval");
  ops::gelu(b, "unused", forward.logits, true);
  const size_t before = module.values.size();
  eliminate_dead(module);
  EXPECT_EQ(kinds(module.program("eval")),
            (std::vector<std::string>{"linear", "gelu", "rms_norm", "linear", "cross_entropy"}));
  EXPECT_EQ(module.values.size(), before - 1);
  expect_sound(module);
}

TEST(Schedule, AssignsScratchAndLifetimes) {
  Module module = with_backward(two_linears);
  schedule(module, Backend::cpu);
  EXPECT_EQ(module.level, Level::step);
  int with_scratch = 0;
  for (const Op& op : module.program("micro_first").ops) {
    const int64_t bytes = cost_of(module, op, Backend::cpu).workspace;
    EXPECT_EQ(op.workspace.valid(), bytes > 0) << op.name;
    if (!op.workspace.valid()) continue;
    ++with_scratch;
    EXPECT_EQ(module[op.workspace].type.bytes(), bytes);
    EXPECT_EQ(module[op.workspace].category, Category::workspace);
  }
  EXPECT_GT(with_scratch, 0);
  for (const Value& value : module.values)
    EXPECT_EQ(value.live.has_value(), !value.shared() && value.owns_bytes()) << value.name;
  expect_sound(module);
}

}  // namespace
}  // namespace snug
