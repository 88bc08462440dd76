// Each test spoils a sound program in one way, and the run must say so.
#include "runtime/null_executor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/testing/toy_programs.h"

namespace snug {
namespace {

using ::testing::HasSubstr;
using testing_ops::Fixture;
using testing_ops::kVector;

std::string complaint(const Module& module) {
  try {
    run_null(module);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::internal);
    return e.what();
  }
  return "nothing is wrong";
}

// x -> a -> b -> y, and a is read again at the end.
struct Chain : Fixture {
  ValueId a = scaled("a", x, 2);
  ValueId c = scaled("b", a, 3);
  Chain() {
    finish(c);
    b.emit_into(testing_ops::scale, "again", {a}, y, {{"by", 1.0}});
    placed();
  }
};

TEST(NullExecutor, AcceptsSoundPrograms) {
  Chain f;
  const NullRun run = run_null(f.module);
  EXPECT_EQ(run.ops, 4);
  EXPECT_EQ(run.high_water[0], f.module.arena_bytes[0]);
}

TEST(NullExecutor, RunsRepeatedRegionTwiceAndTheRestOnce) {
  Chain f;
  f.module.step = {{1000, {"p"}}};
  EXPECT_EQ(run_null(f.module).ops, 8);
  f.module.step = {};
  EXPECT_EQ(run_null(f.module).ops, 4);
}

TEST(NullExecutor, CatchesLiveValuesThatOverlap) {
  Chain f;
  f.module[f.c].offset = *f.module[f.a].offset + 128;
  EXPECT_THAT(complaint(f.module), HasSubstr("scale 'b' uses 'a' and 'b', which share byte 128"));
}

// The input dies where the output is born: no later op would read the damage.
TEST(NullExecutor, CatchesOpOverwritingInputOrScratch) {
  Fixture f;
  const ValueId first = f.scaled("first", f.x, 2);
  const ValueId second = f.b.emit(testing_ops::reverse, "second", {first})[0];
  f.finish(second);
  const Module sound = f.placed();
  EXPECT_EQ(complaint(sound), "nothing is wrong");

  Module input = sound;
  input[second].offset = input[first].offset;
  EXPECT_THAT(complaint(input), HasSubstr("reverse 'second' uses 'first' and 'second'"));

  Module scratch = sound;
  const ValueId workspace = sound.program("p").ops[1].workspace;
  scratch[second].offset = scratch[workspace].offset;
  EXPECT_THAT(complaint(scratch), HasSubstr("uses 'second.scratch' and 'second'"));
}

TEST(NullExecutor, CatchesReadOfUnwrittenBytes) {
  Chain f;
  auto& ops = f.module.programs[0].ops;
  std::swap(ops[0], ops[1]);
  EXPECT_THAT(complaint(f.module), HasSubstr("scale 'b' reads byte 0 of 'a', which no op wrote"));
}

// A version that was overwritten in place is gone, and with it every view of it.
TEST(NullExecutor, CatchesStaleReadThroughView) {
  for (const bool through_view : {false, true}) {
    Fixture f;
    const ValueId before = f.scaled("before", f.x, 2);
    const ValueId part = f.b.view(before, "part", {64}, 0);
    f.scaled("after", before, 3);
    f.finish(through_view ? part : before);
    Module& module = f.placed();
    EXPECT_EQ(complaint(module), "nothing is wrong");
    module[module.program("p").ops[1].outputs[0]].base = before;
    EXPECT_THAT(complaint(module), HasSubstr("whose byte 0 was overwritten by 'after'"));
  }
}

TEST(NullExecutor, CatchesLocalInBytesOfDeadSharedValue) {
  Fixture f;
  const ValueId state =
      add_shared(f.module, "state", kVector, Category::buffers, Scope::persistent);
  f.b.emit(testing_ops::add_to, "add", {state, f.x});
  const ValueId local = f.scaled("local", f.x, 2);
  f.finish(local);
  f.placed();
  f.module[local].offset = f.module[state].offset;
  EXPECT_THAT(complaint(f.module), HasSubstr("byte 0 of 'state' is carried"));
}

TEST(NullExecutor, RequiresPlacedModule) {
  Fixture f;
  f.finish(f.x);
  EXPECT_THAT(complaint(f.module), HasSubstr("is not placed"));
}

}  // namespace
}  // namespace snug
