#include "measure/child_process.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"

namespace snug {
namespace {

TEST(ChildProcess, CatchesBothOutputsAndTheCode) {
  const ChildEnded ended = run_child({"sh", "-c", "echo out; echo err >&2; exit 3"});
  EXPECT_EQ(ended.code, 3);
  EXPECT_EQ(ended.out, "out\n");
  EXPECT_EQ(ended.err, "err\n");
}

TEST(ChildProcess, HandsWordsOverAsTheyAre) {
  EXPECT_EQ(run_child({"printf", "%s|", "two words", "$HOME", "'"}).out, "two words|$HOME|'|");
}

TEST(ChildProcess, InputIsEmpty) { EXPECT_EQ(run_child({"cat"}).out, ""); }

TEST(ChildProcess, ManyLinesDoNotBlockIt) {
  EXPECT_EQ(run_child({"sh", "-c", "head -c 1000000 /dev/zero"}).out.size(), 1'000'000U);
}

TEST(ChildProcess, SignalIsNotAnExitCode) {
  EXPECT_EQ(run_child({"sh", "-c", "kill -9 $$"}).code, -1);
}

TEST(ChildProcess, MissingProgramIsRefused) {
  try {
    run_child({"no-such-python"});
    FAIL() << "nothing was refused";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    EXPECT_THAT(e.what(), ::testing::HasSubstr("no-such-python cannot be started"));
  }
}

}  // namespace
}  // namespace snug
