// snug plan A B: two plans side by side.
#include "cli_fixture.h"

namespace snug {
namespace {

class CliCompare : public Cli {
 protected:
  nlohmann::json plan_of(const std::string& line) {
    return nlohmann::json::parse(snug("plan " + line + " --json").out);
  }
};

TEST_F(CliCompare, TwoModels) {
  const Ended run = snug("plan tiny mlp:64x3 --batch 2");
  ASSERT_EQ(run.code, 0) << run.err;
  for (const char* part : {"tiny", "mlp:64x3", "difference", "arena", "tokens/s", "peak in"})
    EXPECT_THAT(run.out, ::testing::HasSubstr(part));
  for (const std::string& line : split(run.out, '\n')) EXPECT_LE(line.size(), 100U) << line;
}

TEST_F(CliCompare, FormatsMultiplesAndRecompute) {
  const Ended run = snug("plan mlp:8x2 tiny --batch 64 --seq 64");
  EXPECT_THAT(run.out, ::testing::ContainsRegex("activations [^%\n]+ x +[0-9]+\n"));
  write("plain.toml", "model = \"tiny\"\nrecompute = \"none\"\n");
  const Ended other = snug("plan plain.toml tiny --seq 16 --budget 1GiB");
  EXPECT_THAT(other.out, ::testing::ContainsRegex("recompute +none +auto\n"));
}

TEST_F(CliCompare, NumbersMatchEachPlan) {
  write("small.toml", "model = \"tiny\"\noptimizer = \"lion\"\nrecompute = \"full\"\n");
  const auto both = plan_of("tiny small.toml --seq 16");
  const auto a = plan_of("tiny --seq 16");
  const auto b = plan_of("tiny --seq 16 --optimizer lion --recompute full");
  EXPECT_EQ(both["a"]["arena_bytes"], a["arena_bytes"]);
  EXPECT_EQ(both["b"]["breakdown"], b["breakdown"]);
  EXPECT_EQ(both["b"]["name"], "small.toml");
  const auto& difference = both["difference"];
  EXPECT_EQ(difference["arena_bytes"],
            b["arena_bytes"].get<int64_t>() - a["arena_bytes"].get<int64_t>());
  EXPECT_EQ(difference["breakdown"]["optimizer"], b["breakdown"]["optimizer"].get<int64_t>() -
                                                      a["breakdown"]["optimizer"].get<int64_t>());
  EXPECT_EQ(difference["breakdown"]["params"], 0);
}

TEST_F(CliCompare, RecipeWithoutModelUsesTheOther) {
  write("lion.toml", "optimizer = \"lion\"\n");
  write("sgd.toml", "optimizer = \"sgd\"\n");
  EXPECT_EQ(plan_of("lion.toml tiny --seq 16")["a"]["recipe"]["model"], "tiny");
  expect_refused("plan lion.toml sgd.toml", ExitCode::usage, "neither recipe names a model");
  expect_refused("plan lion.toml", ExitCode::usage, "the recipe names none");
}

TEST_F(CliCompare, CommandLineOptionsApplyToBothAndWin) {
  write("run.toml", "model = \"tiny\"\nbatch = 4\nseq = 16\nupdate-in-backward = true\nclip = 0\n");
  const auto both = plan_of("tiny run.toml --batch 2 --budget 1MB");
  EXPECT_EQ(both["a"]["batch"], 2);
  EXPECT_EQ(both["b"]["batch"], 2);
  EXPECT_EQ(both["a"]["seq"], 64);
  EXPECT_EQ(both["b"]["seq"], 16);
  EXPECT_EQ(both["a"]["budget_bytes"], 1'000'000);
}

TEST_F(CliCompare, SingleRecipeIsPlanned) {
  write("run.toml", "model = \"tiny\"\nseq = 16\n");
  EXPECT_EQ(snug("plan run.toml").out, snug("plan tiny --seq 16").out);
}

TEST_F(CliCompare, PlanThatDoesNotFitIsShown) {
  const Ended run = snug("plan tiny mlp:64x3 --budget 100KB");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, ::testing::HasSubstr("too much"));
}

TEST_F(CliCompare, Refusals) {
  expect_refused("plan tiny tiny", ExitCode::usage, "'tiny' and 'tiny' are the same plan");
  expect_refused("plan tiny gtp2", ExitCode::usage, "there is no model 'gtp2'");
  expect_refused("plan tiny mlp:8x2 gpt2", ExitCode::usage, "does not know what to do with 'gpt2'");
  expect_refused("plan tiny none.toml", ExitCode::bad_input, "none.toml is not a file");
  expect_refused("plan tiny mlp:8x2 --program", ExitCode::usage, "--program prints one plan");
  write("bad.toml", "bacth = 4\n");
  expect_refused("plan tiny bad.toml", ExitCode::usage, "bad.toml: line 1");
}

}  // namespace
}  // namespace snug
