// snug ladder as typed: every rung measured as planned, the object for programs, the table for
// people.
#include <algorithm>
#include <iterator>

#include "cli_fixture.h"
#include "support/small_run.h"
#include "techniques/techniques.h"

namespace snug {
namespace {

class CliLadder : public Cli {
 protected:
  std::vector<nlohmann::json> rungs(std::string_view line) {
    const Ended run = snug(std::string(line) + " --json");
    EXPECT_EQ(run.code, 0) << run.err;
    return nlohmann::json::parse(run.out).at("rungs");
  }
};

// The columns that a line takes in a terminal: bytes that start a letter.
long columns(std::string_view line) {
  return std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; });
}

TEST_F(CliLadder, EveryRungIsMeasuredAsPlanned) {
  const auto all = rungs("ladder " + tests_dir() +
                         "/parity/llama --data synthetic --batch 4 --seq 16 --steps 3");
  const auto rows = std::ranges::count_if(
      techniques(), [](const Technique& t) { return t.on_ladder != OnLadder::no; });
  ASSERT_EQ(std::ssize(all), rows + 3) << "the baseline, micro-batches, and all together";
  for (const auto& rung : all) {
    SCOPED_TRACE(rung.dump());
    EXPECT_EQ(rung["measured_bytes"], rung["planned_bytes"]);
    EXPECT_EQ(rung["fits"], true);
    EXPECT_GT(rung["step_ms"], 0.0);
    EXPECT_NEAR(rung["loss"], all[0]["loss"], 0.05) << "three steps differ little";
    EXPECT_GE(rung["planned_bytes"], all.back()["planned_bytes"]);
  }
  EXPECT_EQ(all.front()["name"], "baseline");
  EXPECT_EQ(all.back()["name"], "all together");
}

TEST_F(CliLadder, RungMatchesTrainWithItsFlags) {
  const std::string common = " tiny --data text.txt --batch 4 --seq 16 --steps 2";
  const auto all = rungs("ladder" + common);
  const std::string baseline = all[0]["change"];
  for (const auto& rung : all) {
    const std::string change = rung["change"];
    const Ended run = snug("train" + common + " " + baseline + " " + change + " --json");
    ASSERT_EQ(run.code, 0) << run.err;
    const nlohmann::json last = lines_of(run).back();
    EXPECT_EQ(last["peak_bytes"], rung["measured_bytes"]) << change;
    EXPECT_EQ(last["loss"], rung["loss"]) << change;
  }
}

TEST_F(CliLadder, TableHasEveryRowAndFitsTerminal) {
  const Ended run = snug("ladder mlp:16x3 --batch 4 --steps 2");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, ::testing::Not(::testing::HasSubstr("\r"))) << "progress is for terminals";
  EXPECT_THAT(run.out, ::testing::ContainsRegex("\nbaseline +█[^\n]+ ms +x 1\\.00 "));
  EXPECT_THAT(run.out, ::testing::ContainsRegex("\nadam-mini +█"));
  EXPECT_THAT(run.out, ::testing::ContainsRegex("\nall together --recompute full"));
  for (const std::string& line : split(run.out, '\n')) EXPECT_LE(columns(line), 100) << line;
}

TEST_F(CliLadder, RungThatDoesNotFitIsShown) {
  const auto plain = rungs("ladder tiny --batch 4 --seq 16 --device null");
  EXPECT_TRUE(plain[0]["step_ms"].is_null());
  EXPECT_TRUE(plain[0]["loss"].is_null());
  const int64_t baseline = plain[0]["planned_bytes"];
  const Ended run =
      snug(fmt::format("ladder tiny --batch 4 --seq 16 --steps 1 --budget {}", baseline - 1));
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, ::testing::ContainsRegex("\nbaseline [^\n]+ does not fit\n"));
  EXPECT_THAT(run.out, ::testing::ContainsRegex("\nall together [^\n]+ ms "));
}

TEST_F(CliLadder, Refusals) {
  expect_refused("ladder gtp2", ExitCode::usage, "there is no model 'gtp2'");
  expect_refused("ladder", ExitCode::usage, "snug ladder needs a MODEL");
  expect_refused("ladder tiny --batch 0", ExitCode::usage, "--batch is 0");
  expect_refused("ladder tiny --recompute ful", ExitCode::usage, "ful");
  expect_refused("ladder tiny --out runs/a", ExitCode::usage, "keeps none of the models");
  expect_refused("ladder tiny --data none.txt", ExitCode::bad_input, "none.txt");
}

}  // namespace
}  // namespace snug
