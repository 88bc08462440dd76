// Output that cannot be written costs no run: closed and full streams, readers that leave, Ctrl-C.
// And the small things that everyone sees: help, --version, --quiet, --json.
#include "cli_fixture.h"

namespace snug {
namespace {

const std::string kThreeSteps = "train tiny --data text.txt --seq 16 --batch 2 --steps 3 --out o";

class CliOutput : public Cli {
 protected:
  Ended in_shell(const std::string& line, std::string_view words) {
    return run_snug_in_shell(line, split(words, ' '), {.directory = dir_.path()});
  }

  void expect_model_saved() {
    EXPECT_TRUE(std::filesystem::exists(dir_ / "o/run.toml"));
    const Ended loaded = snug("train o --data text.txt --seq 16 --steps 1 --out p");
    EXPECT_EQ(loaded.code, 0) << "a whole model: " << loaded.err;
  }
};

// --- streams that take nothing ------------------------------------------------------------------

TEST_F(CliOutput, ClosedStderrIsHarmless) {
  const Ended run = in_shell("\"$@\" 2>&-", kThreeSteps);
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, ::testing::HasSubstr("step     3/3"));
  expect_model_saved();
}

TEST_F(CliOutput, FullStderrIsHarmless) {
  const Ended run = in_shell("\"$@\" 2>/dev/full", kThreeSteps);
  EXPECT_EQ(run.code, 0);
  EXPECT_THAT(run.out, ::testing::HasSubstr("step     3/3"));
  expect_model_saved();
}

TEST_F(CliOutput, FullStdoutIsReportedAfterSaving) {
  const Ended run = in_shell("\"$@\" >/dev/full", kThreeSteps);
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::bad_input));
  EXPECT_THAT(run.err, ::testing::HasSubstr("done after 3 steps"));
  EXPECT_THAT(run.err, ::testing::EndsWith("snug: results could not be written to stdout: No space "
                                           "left on device\n"));
  expect_model_saved();
}

TEST_F(CliOutput, ClosedStdoutIsReportedAfterSaving) {
  const Ended run = in_shell("\"$@\" >&-", kThreeSteps);
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::bad_input));
  EXPECT_THAT(run.err, ::testing::HasSubstr("results could not be written to stdout"));
  expect_model_saved();
}

TEST_F(CliOutput, LeavingReaderIsHarmless) {
  const Ended run = in_shell("{ \"$@\"; echo $? >code; } | head -n 1", kThreeSteps);
  EXPECT_THAT(run.out, ::testing::StartsWith("step     1/3"));
  EXPECT_EQ(read_file(dir_ / "code"), "0\n");
  EXPECT_THAT(run.err, ::testing::Not(::testing::HasSubstr("could not be written")));
  expect_model_saved();
}

TEST_F(CliOutput, EveryVerbReportsLostResults) {
  for (const char* words :
       {"models", "gpus", "help", "plan tiny --seq 16", "doctor", "plan --help"}) {
    SCOPED_TRACE(words);
    const Ended run = in_shell("\"$@\" >/dev/full", words);
    EXPECT_EQ(run.code, static_cast<int>(ExitCode::bad_input));
    EXPECT_THAT(run.err, ::testing::HasSubstr("results could not be written to stdout"));
  }
}

// A refusal keeps its own exit code where nothing can be said.
TEST_F(CliOutput, RefusalWithoutStderrIsStillRefusal) {
  for (const char* stderr_to : {"2>&-", "2>/dev/full"}) {
    EXPECT_EQ(in_shell(fmt::format("\"$@\" {}", stderr_to), "plan nosuchmodel").code,
              static_cast<int>(ExitCode::usage));
  }
}

// --- Ctrl-C -------------------------------------------------------------------------------------

// A step of many micro-batches, so that it is still running when the second Ctrl-C comes.
TEST_F(CliOutput, CtrlCIsAnsweredAtOnceSecondEndsProgram) {
  const Ended run =
      snug("train tiny --data text.txt --seq 16 --batch 2 --accum 1000000 --holdout 0.1 --out o",
           {.interrupt_after = "held-out loss", .interrupt_again = "stopping after this step"});
  EXPECT_EQ(run.signal, SIGINT) << "what a shell reports as 130";
  EXPECT_THAT(run.err, ::testing::HasSubstr("stopping after this step; again to stop now\n"));
}

// --- what everyone sees -------------------------------------------------------------------------

TEST_F(CliOutput, StepLinesAreShortMemoryIsPrintedOnce) {
  const Ended run = snug(kThreeSteps);
  for (const std::string& line : split(run.out, '\n')) EXPECT_LE(line.size(), 100U) << line;
  EXPECT_THAT(run.out, ::testing::Not(::testing::HasSubstr("planned")));
  EXPECT_THAT(run.err, ::testing::ContainsRegex("memory: [0-9,]+ bytes, planned and measured\n"));
  EXPECT_EQ(run.err.find("memory: "), run.err.rfind("memory: "));
  EXPECT_THAT(run.err, ::testing::ContainsRegex("done after 3 steps in [0-9.]+ m?s: loss "));
}

TEST_F(CliOutput, TerminalShowsProgressBeforeFirstStep) {
  const Ended run = run_snug(split(kThreeSteps, ' '), {.directory = dir_.path(), .terminal = true});
  const size_t first_step = run.out.find("step     1/3");
  for (const char* doing : {"planning ...", "initialising ", "step 1 of 3 ..."}) {
    EXPECT_LT(run.out.find(doing), first_step) << doing;
  }
}

TEST_F(CliOutput, QuietLeavesResultsAndErrors) {
  const Ended run = snug(kThreeSteps + " --quiet");
  EXPECT_EQ(run.code, 0);
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, ::testing::HasSubstr("step     3/3"));
  EXPECT_THAT(snug("plan nosuchmodel --quiet").err, ::testing::StartsWith("snug: "));
}

TEST_F(CliOutput, HelpOfAVerbIsTheVerbsHelp) {
  EXPECT_EQ(snug("help plan").out, snug("plan --help").out);
  EXPECT_EQ(snug("help plan").code, 0);
  EXPECT_THAT(snug("help plan").out, ::testing::HasSubstr("rtx4090"));
  EXPECT_THAT(snug("help plan").out, ::testing::HasSubstr("snug gpus"));
  expect_refused("help plna", ExitCode::usage, "did you mean 'plan'?");
}

TEST_F(CliOutput, VersionIsOneLine) {
  EXPECT_THAT(snug("--version").out,
              ::testing::MatchesRegex("snug [0-9]+\\.[0-9]+\\.[0-9]+( \\([0-9a-f]+\\))?\n"));
}

TEST_F(CliOutput, ModelsAsJson) {
  const auto models = nlohmann::json::parse(snug("models --json").out);
  const auto gpt2 = std::ranges::find(models, "gpt2", [](const auto& m) { return m["name"]; });
  ASSERT_NE(gpt2, models.end());
  EXPECT_EQ((*gpt2)["layers"], 12);
  EXPECT_EQ((*gpt2)["params"], 124439808);
}

TEST_F(CliOutput, GpusAsTableAndJson) {
  const Ended table = snug("gpus");
  EXPECT_THAT(table.out, ::testing::ContainsRegex("rtx4060ti-16 +16.00 GiB +8.9 "));
  for (const std::string& line : split(table.out, '\n')) EXPECT_LE(line.size(), 100U) << line;
  const auto gpus = nlohmann::json::parse(snug("gpus --json").out);
  const auto l4 = std::ranges::find(gpus, "l4", [](const auto& gpu) { return gpu["name"]; });
  ASSERT_NE(l4, gpus.end());
  EXPECT_EQ((*l4)["compute_capability"], "8.9");
  EXPECT_EQ((*l4)["clouds"], (nlohmann::json{"g6", "gr6", "g2-standard"}));
}

TEST_F(CliOutput, EscapesTerminalCommandsInNames) {
  const Ended run = run_snug({"plan", "evil\x1b[2J\rmodel"}, {.directory = dir_.path()});
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::usage));
  EXPECT_THAT(run.err, ::testing::Not(::testing::HasSubstr("\x1b")));
}

}  // namespace
}  // namespace snug
