#include "ir/program.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "ir/toy_ops.h"

namespace snug {
namespace {

TEST(Module, FindsProgramsByRole) {
  Module m;
  const Builder first(m, ProgramRole::training_first);
  const Builder other(m, "something else");
  EXPECT_EQ(m.program(ProgramRole::training_first).name, "micro_first");
  EXPECT_EQ(m.program_index(ProgramRole::evaluation), -1);
  EXPECT_THROW(m.program(ProgramRole::evaluation), Error);
  m.programs[0].name = "stage 2";
  EXPECT_EQ(Builder(m, ProgramRole::training_first).program().name, "stage 2");
  EXPECT_EQ(m.programs.size(), 2U);
}

TEST(Module, NamesInALayerAreTheSameInEveryLayer) {
  toy::Fixture f;
  for (const int32_t i : {1, 12}) {
    const auto layer = f.b.layer(i, fmt::format("layers.{}", i));
    f.b.emit(toy::unary, "attn.mix", {f.x});
    EXPECT_EQ(f.module.name_in_layer(f.b.last().name, i), "attn.mix");
  }
  EXPECT_EQ(f.module.name_in_layer("layers.12.attn.mix", 1), "layers.12.attn.mix");
  EXPECT_EQ(f.module.name_in_layer("layers.12", 12), "layers.12");
  EXPECT_EQ(f.module.name_in_layer("embed", kNoLayer), "embed");
  EXPECT_THROW(static_cast<void>(f.b.layer(1, "h.1")), Error);
}

TEST(Module, ClonedOpsKeepLinksInsideClone) {
  toy::Fixture f;
  const ValueId a = f.b.emit(toy::unary, "a", {f.x})[0];
  f.b.set_phase(Phase::backward);
  f.b.emit(toy::unary, "a.again", {a});
  f.b.last().clone_of = "a";
  f.b.emit(toy::unary, "a.grad", {a});
  f.b.last().backward_of = "a";
  const Program body = f.b.program();
  const Program copy = clone(f.module, body, "copy", "@1");
  ASSERT_EQ(copy.ops.size(), 3U);
  EXPECT_EQ(copy.ops[0].clone_of, "");
  EXPECT_EQ(copy.ops[1].clone_of, "a@1");
  EXPECT_EQ(copy.ops[2].backward_of, "a@1");
}

TEST(Module, SweepingFollowsLinks) {
  toy::Fixture f;
  f.b.emit(toy::unary, "dead", {f.x});
  f.b.program().ops.clear();
  const ValueId w = add_shared(f.module, "w", toy::kVector, Category::params, Scope::persistent);
  const ValueId grad = add_gradient(f.module, w, Dtype::bf16);
  EXPECT_EQ(f.module[grad].type.text(), "bf16[64]");
  sweep_values(f.module);
  const ValueId after = f.module.find_shared("w");
  EXPECT_EQ(f.module[f.module.find_shared("grad.w")].parameter, after);
  EXPECT_EQ(f.module.gradient_of(after), f.module.find_shared("grad.w"));
}

}  // namespace
}  // namespace snug
