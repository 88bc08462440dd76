#include "ir/verifier.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/timed_test.h"
#include "ir/lifetime.h"
#include "ir/toy_ops.h"

namespace snug {
namespace {

using ::testing::HasSubstr;
using toy::Fixture;

std::string fault(const Module& module) {
  try {
    verify(module);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::internal);
    return e.what();
  }
  return "sound";
}

// x -> a -> b, with a persistent w and a carried grad.
struct Verifier : ::testing::Test, Fixture {
  ValueId w = add_shared(module, "w", toy::kVector, Category::params, Scope::persistent);
  ValueId grad = add_shared(module, "grad", toy::kVector, Category::grads, Scope::step);
  ValueId a = b.emit(toy::unary, "a", {x})[0];

  std::string result() const { return fault(module); }
  std::vector<Op>& ops() { return b.program().ops; }
  // Level step, with scratch for the ops that ask for it.
  void schedule() {
    for (Op& op : ops()) {
      if (cost_of(module, op, Backend::cpu).workspace == 0) continue;
      op.workspace = module.add({.name = op.name + ".scratch",
                                 .type = {Dtype::u8, {512}},
                                 .category = Category::workspace,
                                 .program = 0});
    }
    compute_lifetimes(module);
    module.level = Level::step;
  }
  // Level placed, every value after the one before.
  void place_apart() {
    schedule();
    int64_t at = 0;
    for (Value& v : module.values) {
      if (v.owns_bytes()) v.offset = std::exchange(at, at + 512);
    }
    module.arena_bytes[0] = at;
    module.level = Level::placed;
  }
};

TEST_F(Verifier, AcceptsASoundModule) {
  const ValueId next = b.emit(toy::unary, "next", {a})[0];
  module[next].base = a;
  const ValueId dw = b.emit_into(toy::wgrad, "dw", {next, grad}, grad);
  const ValueId ok = b.emit(toy::finite, "ok", {dw, next})[0];
  b.emit(toy::update, "update", {w, dw});
  b.last().predicate = ok;
  module.step = {{2, {"p"}}};
  place_apart();
  EXPECT_EQ(result(), "sound");
}

// --- structure ---------------------------------------------------------------------------------

TEST_F(Verifier, Arity) {
  ops()[0].inputs.push_back(x);
  EXPECT_EQ(result(), "program 'p', unary 'a': has 2 inputs for 1 ports");
  ops()[0].inputs = {ValueId{}};
  EXPECT_THAT(result(), HasSubstr("input 'x' is missing"));
  ops()[0].inputs = {x};
  ops()[0].outputs.push_back(a);
  EXPECT_THAT(result(), HasSubstr("has 2 outputs for 1 ports"));
  ops()[0].outputs.clear();
  EXPECT_THAT(result(), HasSubstr("has 0 outputs, not 1"));
}

TEST_F(Verifier, IdsAreValues) {
  ops()[0].inputs = {ValueId{999}};
  EXPECT_THAT(result(), HasSubstr("refers to value number 999"));
  ops()[0].inputs = {x};
  ops()[0].def = nullptr;
  EXPECT_THAT(result(), HasSubstr("has no definition"));
}

TEST_F(Verifier, Types) {
  module[a].type.shape = {32};
  EXPECT_EQ(result(), "program 'p', unary 'a': makes 'a' as f32[64], not f32[32]");
  module[a].type.shape = {64};
  const ValueId half = b.view(a, "half", {32}, 0);
  b.emit(toy::add, "sum", {a, a});
  ops()[1].inputs[1] = half;
  EXPECT_THAT(result(), HasSubstr("its inputs are refused"));
}

TEST_F(Verifier, ValuesAreWrittenOnceBeforeUse) {
  b.emit(toy::unary, "b", {a});
  std::swap(ops()[0], ops()[1]);
  EXPECT_EQ(result(), "program 'p', unary 'b': reads 'a' before it is made");
  std::swap(ops()[0], ops()[1]);
  ops()[1].outputs = {a};
  EXPECT_EQ(result(), "program 'p', unary 'b': makes 'a', which 'a' has made");
  ops()[1].outputs = {grad};
  EXPECT_THAT(result(), HasSubstr("makes the shared value 'grad' itself"));
}

TEST_F(Verifier, Links) {
  module[grad].parameter = w;
  EXPECT_EQ(result(), "sound");
  module[grad].parameter = x;
  EXPECT_EQ(result(), "value 'grad': belongs to a value that is no parameter");
  module[grad].parameter = w;
  module[w].type.shape = {32};
  EXPECT_EQ(result(), "value 'grad': f32[64] belongs to 'w' f32[32]");
  module[w].type.shape = {64};
  b.set_phase(Phase::backward);
  b.emit(toy::unary, "da", {a});
  b.last().backward_of = "a";
  EXPECT_EQ(result(), "sound");
  b.emit(toy::unary, "db", {a});
  b.last().backward_of = "da";
  EXPECT_EQ(result(), "program 'p', unary 'db': refers to 'da' as its forward op");
  b.last().backward_of = "dropped since";
  EXPECT_EQ(result(), "sound");
}

TEST_F(Verifier, LocalsStayInTheirProgram) {
  Builder other(module, "q");
  other.emit(toy::unary, "z", {a});
  EXPECT_EQ(result(), "program 'q', unary 'z': touches 'a', a local of another program");
}

TEST_F(Verifier, SharedValuesHaveNoProgram) {
  module[w].program = 0;
  EXPECT_THAT(result(), HasSubstr("'w' is shared and says it is local"));
}

TEST_F(Verifier, ViewsAreInsideTheirBase) {
  const ValueId view = b.view(a, "view", {32}, 32);
  b.emit(toy::unary, "b", {view});
  EXPECT_EQ(result(), "sound");
  module[view].view_offset = 33;
  EXPECT_EQ(
      result(),
      "program 'p', value 'view': f32[32] from element 33 on ends beyond its base 'a' f32[64]");
  module[view].view_offset = -1;
  EXPECT_THAT(result(), HasSubstr("begins before its base"));
  module[view].view_offset = 0;
  module[view].space = Space::host;
  EXPECT_THAT(result(), HasSubstr("is in host, its base 'a' in device"));
  module[view].space = Space::device;
  module[view].base = ValueId{999};
  EXPECT_THAT(result(), HasSubstr("its base is no value"));
}

TEST_F(Verifier, PaddingHoldsTheValue) {
  module[a].padded = {128};
  EXPECT_EQ(result(), "sound");
  module[a].padded = {63};
  EXPECT_THAT(result(), HasSubstr("storage [63] does not hold f32[64]"));
}

TEST_F(Verifier, NamesAreUnique) {
  b.emit(toy::unary, "b", {a});
  ops()[1].name = "a";
  EXPECT_EQ(result(), "program 'p', unary 'a': an earlier op has the same name");
  ops()[1].name = "b";
  module[ops()[1].outputs[0]].name = "x";
  EXPECT_EQ(result(), "program 'p', value 'x': another value has the same name");
  module[ops()[1].outputs[0]].name = "b";
  module.programs.push_back({"p", {}});
  EXPECT_EQ(result(), "two programs are named 'p'");
}

TEST_F(Verifier, OneSpacePerOp) {
  module[w].space = Space::host;
  b.emit(toy::add, "sum", {a, w});
  EXPECT_EQ(result(), "program 'p', add 'sum': touches 'a' in device and 'w' in host");
  ops().pop_back();
  b.emit(toy::copy, "fetch", {w});
  EXPECT_EQ(result(), "sound");
}

TEST_F(Verifier, PredicateIsAnInteger) {
  ops()[0].predicate = w;
  EXPECT_EQ(result(), "program 'p', unary 'a': its predicate 'w' is f32[64], not i32[]");
}

TEST_F(Verifier, WaitsOnlyForEarlierOps) {
  ops()[0].after = {"later"};
  EXPECT_THAT(result(), HasSubstr("waits for 'later', which is no earlier op"));
}

TEST_F(Verifier, StepRunsPrograms) {
  module.step = {{1, {"q"}}};
  EXPECT_THAT(result(), HasSubstr("runs 'q', which is no program"));
  module.step = {{0, {"p"}}};
  EXPECT_THAT(result(), HasSubstr("repeats something 0 times"));
}

TEST_F(Verifier, CollectivesAreNumberedInOrder) {
  auto gather = [&](const char* axis, int64_t seq) {
    b.emit(toy::gather, "gather", {x}, {{"axis", axis}, {"seq", seq}, {"ranks", 2}});
  };
  gather("dp", 3);
  gather("tp", 1);
  gather("dp", 4);
  EXPECT_EQ(result(), "sound");
  gather("dp", 4);
  EXPECT_EQ(result(), "program 'p', gather 'gather.4': has number 4 on axis 'dp', after number 4");
}

// --- writes ------------------------------------------------------------------------------------

TEST_F(Verifier, OnlyAllowedOpsWritePersistentValues) {
  const ValueId out = b.emit(toy::unary, "b", {w})[0];
  module[out].base = w;
  EXPECT_EQ(result(),
            "program 'p', unary 'b': writes the persistent value 'w' without having to alias it");
}

TEST_F(Verifier, RequiredAliasIsPresent) {
  const ValueId out = b.emit(toy::update, "update", {w, grad})[0];
  module[out].base = {};
  EXPECT_EQ(result(), "program 'p', update 'update': 'update' must alias 'w'");
}

TEST_F(Verifier, PersistentValuesAreCopiedBack) {
  module[w].space = Space::host;
  const ValueId back = b.emit(toy::copy, "back", {a})[0];
  module[back].base = w;
  module[back].space = Space::host;
  EXPECT_EQ(result(), "sound");
}

TEST_F(Verifier, GrantedInPlaceIsRequired) {
  const ValueId y = b.emit(toy::norm, "norm", {a})[0];
  module[y].base = a;
  EXPECT_EQ(result(),
            "program 'p', norm 'norm': makes 'norm.y' in the bytes of 'a', which its definition "
            "does not grant");
}

TEST_F(Verifier, InPlaceKeepsSameBytes) {
  const ValueId low = b.view(a, "low", {32}, 0);
  const ValueId out = b.emit(toy::unary, "b", {low})[0];
  module[out].base = a;
  module[out].view_offset = 16;
  EXPECT_THAT(result(), HasSubstr("which its definition does not grant"));
}

TEST_F(Verifier, AccumulatesInPlace) {
  const ValueId sum = b.emit(toy::wgrad, "dw", {x, a})[0];
  module[sum].base = a;
  EXPECT_EQ(result(), "sound");
}

TEST_F(Verifier, StepValuesAreWrittenByAnyOp) {
  b.emit_into(toy::copy, "keep", {a}, grad);
  EXPECT_EQ(result(), "sound");
}

TEST_F(Verifier, OverwrittenValueIsNotRead) {
  const ValueId next = b.emit(toy::unary, "next", {a})[0];
  module[next].base = a;
  b.emit(toy::unary, "late", {a});
  EXPECT_EQ(result(), "program 'p', unary 'late': reads 'a', whose bytes 'next' has overwritten");
  ops()[2].inputs = {next};
  EXPECT_EQ(result(), "sound");
}

TEST_F(Verifier, OverwrittenBytesAreNotReadThroughViews) {
  const ValueId low = b.view(a, "low", {32}, 0);
  const ValueId high = b.view(a, "high", {32}, 32);
  const ValueId next = b.emit(toy::unary, "next", {low})[0];
  module[next].base = low;
  b.emit(toy::unary, "beside", {high});
  EXPECT_EQ(result(), "sound");
  b.emit(toy::unary, "over", {low});
  EXPECT_THAT(result(), HasSubstr("reads 'low', whose bytes 'next' has overwritten"));
  ops()[3].inputs = {next};
  b.emit(toy::unary, "whole", {a});
  EXPECT_THAT(result(), HasSubstr("reads 'a', whose bytes 'next' has overwritten"));
}

TEST_F(Verifier, ViewOfInPlaceResultSeesLaterBytes) {
  const ValueId low = b.view(a, "low", {32}, 0);
  const ValueId high = b.view(a, "high", {32}, 32);
  const ValueId second = b.emit(toy::unary, "second", {high})[0];
  module[second].base = high;
  const ValueId first = b.emit(toy::unary, "first", {low})[0];
  module[first].base = low;
  const ValueId whole = b.view(first, "whole", {64}, 0);
  b.emit(toy::unary, "reader", {whole});
  EXPECT_EQ(result(), "sound") << "both halves are there by then";
  module[whole].type.shape = {65};
  EXPECT_THAT(result(), HasSubstr("ends beyond its base"));
  module[whole].type.shape = {64};
  std::swap(ops()[1], ops()[2]);
  EXPECT_THAT(result(), HasSubstr("reads 'whole', whose bytes 'second' has overwritten"));
}

TEST_F(Verifier, OverwrittenCarriedValueIsNotRead) {
  b.emit_into(toy::copy, "keep", {a}, grad);
  b.emit(toy::unary, "old", {grad});
  EXPECT_THAT(result(), HasSubstr("reads 'grad', whose bytes 'keep' has overwritten"));
}

TEST_F(Verifier, OpDoesNotReadItsOwnOutputBytes) {
  const ValueId sum = b.emit(toy::add, "sum", {a, a})[0];
  module[sum].base = a;
  EXPECT_EQ(result(),
            "program 'p', add 'sum': reads 'a' as 'b' while it overwrites those bytes with 'sum'");
}

TEST_F(Verifier, OutputsDoNotShareBytes) {
  const auto both = b.emit(toy::twice, "twice", {a});
  module[both[0]].base = a;
  module[both[1]].base = a;
  EXPECT_THAT(result(), HasSubstr("makes 'twice.a' and 'twice.b' in the same bytes"));
}

// --- step and placed ---------------------------------------------------------------------------

TEST_F(Verifier, WorkspaceIsThereAndLargeEnough) {
  b.emit(toy::wgrad, "dw", {a});
  schedule();
  EXPECT_EQ(result(), "sound");
  module[ops()[1].workspace].type.shape = {511};
  EXPECT_EQ(result(), "program 'p', wgrad 'dw': needs 512 bytes of workspace and has 511");
  ops()[1].workspace = {};
  EXPECT_THAT(result(), HasSubstr("has 0"));
}

TEST_F(Verifier, WorkspaceIsPrivateToItsOp) {
  b.emit(toy::wgrad, "dw", {a});
  schedule();
  b.emit(toy::unary, "peek", {ops()[1].workspace});
  EXPECT_THAT(result(), HasSubstr("another op's workspace"));
}

TEST_F(Verifier, LifetimesAreRight) {
  b.emit(toy::unary, "b", {a});
  schedule();
  module[a].live = {0, 0};
  EXPECT_EQ(result(), "program 'p', value 'a': says it lives 0..0, not 0..1");
  module[a].live = {0, 1};
  module[w].live = {0, 1};
  EXPECT_EQ(result(), "value 'w': says it lives 0..1, not nothing");
}

TEST_F(Verifier, OffsetsAreAlignedAndInside) {
  place_apart();
  module[a].offset = 100;
  EXPECT_EQ(result(), "program 'p', value 'a': is at byte 100, which is no multiple of 256");
  module[a].offset = module.arena_bytes[0];
  EXPECT_THAT(result(), HasSubstr("end beyond the arena of"));
  module[a].offset.reset();
  EXPECT_THAT(result(), HasSubstr("has no offset"));
}

TEST_F(Verifier, LiveValuesShareNoBytes) {
  const ValueId second = b.emit(toy::unary, "b", {a})[0];
  const ValueId third = b.emit(toy::unary, "c", {second})[0];
  place_apart();
  module[third].offset = module[a].offset;
  EXPECT_EQ(result(), "sound");  // a has died
  module[second].offset = module[a].offset;
  EXPECT_EQ(result(), "program 'p', value 'b': shares bytes with 'a' while both are alive");
  module[second].offset = module[w].offset;
  EXPECT_EQ(result(), "program 'p', value 'b': shares bytes with 'w' while both are alive");
  module[grad].offset = module[w].offset;
  EXPECT_EQ(result(), "value 'grad': shares bytes with 'w' while both are alive");
}

TEST_F(Verifier, LargeBlockOverlapsSmallOnes) {
  const ValueId big = b.emit(toy::unary, "big", {a})[0];
  b.emit(toy::add, "sum", {a, big});
  place_apart();
  module[big].padded = {1024};
  module[big].offset = 0;
  module.arena_bytes[0] = 1 << 20;
  EXPECT_THAT(result(), HasSubstr("shares bytes"));
}

// --- speed -------------------------------------------------------------------------------------

// 5,000 layers make as many ops and values as a model of 405 billion parameters has, with its longest
// chains of in-place versions.
TEST(VerifierSpeed, IsLinear) {
  const auto make = [](int layers) {
    Fixture f;
    ValueId chain = f.b.emit(toy::unary, "chain", {f.x})[0];
    for (int i = 0; i < layers; ++i) {
      f.b.emit(toy::norm, fmt::format("layer.{}.norm", i), {chain});
      const ValueId next = f.b.emit(toy::unary, fmt::format("layer.{}.residual", i), {chain})[0];
      f.module[next].base = chain;
      chain = next;
    }
    compute_lifetimes(f.module);
    int64_t at = 0;
    for (Value& v : f.module.values) {
      if (v.owns_bytes()) v.offset = std::exchange(at, at + 256);
    }
    f.module.arena_bytes[0] = at;
    f.module.level = Level::placed;
    return std::move(f.module);
  };
  EXPECT_LT(growth_by_8(625, make, [](const Module& module) { verify(module); }), kLinearGrowth);
}

}  // namespace
}  // namespace snug
