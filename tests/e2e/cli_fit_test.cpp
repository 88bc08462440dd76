// snug fit as typed.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "e2e/cli_fixture.h"

namespace snug {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CliFit : public Cli {
 protected:
  nlohmann::json fit(const std::string& line) {
    const Ended run = snug("fit " + line + " --json");
    EXPECT_EQ(run.code, 0) << run.err;
    return nlohmann::json::parse(run.out, nullptr, /*allow_exceptions=*/false);
  }
  // The arena that a plan of the same words takes.
  int64_t planned(const std::string& line) {
    return nlohmann::json::parse(snug("plan " + line + " --json").out)["arena_bytes"];
  }
};

TEST_F(CliFit, LargestBatchMatchesPlans) {
  const std::string words = "tiny --recompute none --attention standard --loss whole --seq 32";
  const auto answer = fit(words + " --of batch --budget 4MiB");
  const int64_t batch = answer["batch"];
  EXPECT_EQ(answer["flags"], fmt::format("--batch {} --accum 1", batch)) << "and is not split";
  EXPECT_EQ(answer["arena_bytes"], planned(fmt::format("{} --batch {}", words, batch)));
  EXPECT_EQ(answer["next_bytes"], planned(fmt::format("{} --batch {}", words, batch + 1)));
  EXPECT_LE(answer["arena_bytes"], 4 << 20);
  EXPECT_GT(answer["next_bytes"], 4 << 20);
  EXPECT_EQ(answer["recompute"], "none");
  EXPECT_GT(answer["step_ms"], 0);
  EXPECT_GT(answer["tokens_per_s"], 0);
}

TEST_F(CliFit, RecomputeAllowsMore) {
  const std::string words = "tiny --seq 32 --budget 4MiB";
  const auto open = fit(words), pinned = fit(words + " --recompute none");
  EXPECT_GT(open["batch"], pinned["batch"]);
  EXPECT_LE(open["arena_bytes"], 4 << 20);
  EXPECT_NE(open["recompute"], "none");
}

TEST_F(CliFit, LongestSequenceIsBoundedByModel) {
  const auto by_bytes = fit("tiny --of seq --batch 64 --budget 4MiB");
  EXPECT_LT(by_bytes["seq"], 64);
  EXPECT_EQ(by_bytes["next"], fmt::format("--seq {}", by_bytes["seq"].get<int64_t>() + 1));
  EXPECT_GT(by_bytes["next_bytes"], 4 << 20);
  EXPECT_TRUE(by_bytes["limit"].is_null());
  const auto by_model = fit("tiny --of seq --batch 1 --budget 8GiB");
  EXPECT_EQ(by_model["seq"], 64);
  EXPECT_TRUE(by_model["next_bytes"].is_null());
  EXPECT_EQ(by_model["limit"], "tiny is made for 64 tokens");
}

TEST_F(CliFit, GlobalBatchIsNotExceeded) {
  const auto answer = fit("tiny --seq 16 --global-batch 12 --budget 1GiB");
  EXPECT_EQ(answer["batch"], 12);
  EXPECT_EQ(answer["accum"], 1);
  EXPECT_EQ(answer["limit"], "a step has --global-batch 12");
}

TEST_F(CliFit, LargestModelGrowsByLevel) {
  const auto answer = fit("snug-tiny --of model --batch 2 --seq 128 --budget 512MiB");
  ASSERT_EQ(answer["levels"].size(), 3);
  int64_t before = 0;
  for (const auto& level : answer["levels"]) {
    SCOPED_TRACE(level["name"]);
    EXPECT_GE(level["params"], before);
    before = level["params"];
    const std::string words =
        fmt::format("{} {} --batch 2 --seq 128 --budget 512MiB", level["model"].get<std::string>(),
                    level["flags"].get<std::string>());
    EXPECT_EQ(planned(words), level["arena_bytes"]) << "the flags that are named make this plan";
    EXPECT_EQ(level["width"].get<int64_t>() % 128, 0);
    EXPECT_GT(level["next_bytes"], 512 << 20);
  }
}

TEST_F(CliFit, AllowedTechniquesLimitLastLevel) {
  const auto answer = fit("snug-tiny --of model --seq 64 --budget 256MiB --allow optimizer");
  const std::string flags = answer["levels"][2]["flags"];
  EXPECT_THAT(flags, HasSubstr("adamw8bit"));
  EXPECT_THAT(flags, ::testing::Not(HasSubstr("--master none")));
  EXPECT_THAT(flags, ::testing::Not(HasSubstr("int8")));
}

TEST_F(CliFit, MlpIsAFamily) {
  const auto answer = fit("mlp:128x4 --of model --batch 64 --budget 64MiB");
  EXPECT_THAT(answer["levels"][0]["model"], ::testing::StartsWith("mlp:"));
  expect_refused("fit mlp:128x4 --of seq --budget 64MiB", ExitCode::usage, "has no sequences",
                 "--of batch");
}

TEST_F(CliFit, FoundSizeCanBeTrained) {
  const Ended found = snug("fit snug-tiny --of model --batch 2 --seq 32 --budget 32MiB --out big");
  ASSERT_EQ(found.code, 0) << found.err;
  const std::string saved = read_file(dir_ / "big/run.toml");
  const std::string settled = saved.substr(saved.find("[settled]"));
  EXPECT_THAT(settled, Not(HasSubstr("auto"))) << "what was chosen, and not what was left open";
  const Ended by_file = snug("train --config big/run.toml --steps 1");
  EXPECT_EQ(by_file.code, 0) << by_file.err;
  const Ended by_directory = snug("plan big --batch 2 --seq 32 --json");
  EXPECT_EQ(by_directory.code, 0) << by_directory.err;
}

TEST_F(CliFit, TableFits100Columns) {
  for (const char* of : {"batch", "seq", "model"}) {
    const Ended run = snug(
        fmt::format("fit gpt2 --gpu rtx4090 --of {} --batch 8 --seq 512 --precision fp32", of));
    ASSERT_EQ(run.code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("rtx4090"));
    EXPECT_THAT(run.out, HasSubstr("plain tiles (fp32 without --tf32)"));
    for (const std::string& line : split(run.out, '\n')) EXPECT_LE(line.size(), 100) << line;
  }
}

// Where a quick packing of 234 sequences would not fit, and that of a plan does.
TEST_F(CliFit, OneMoreDoesNotFitInPlan) {
  const std::string words = "bert-large --gpu l4 --seq 512";
  const auto answer = nlohmann::json::parse(snug("fit " + words + " --json").out);
  const int64_t next = answer["batch"].get<int64_t>() + 1;
  const Ended plan =
      snug(fmt::format("plan {} --batch {} --accum 1 --offload none --json", words, next));
  EXPECT_EQ(plan.code, static_cast<int>(ExitCode::does_not_fit));
  EXPECT_EQ(nlohmann::json::parse(plan.out)["arena_bytes"], answer["next_bytes"]);
}

TEST_F(CliFit, RefusesUnboundedSearches) {
  expect_refused("fit tiny", ExitCode::usage, "snug fit needs --budget or --gpu", "--gpu rtx4090");
  expect_refused("fit tiny --budget 1GiB --of layers", ExitCode::usage,
                 "--of 'layers' is not one of batch, seq, model");
  expect_refused("fit tiny --budget 1GiB --of sequ", ExitCode::usage, "did you mean 'seq'?");
  expect_refused("fit tiny --gpu rtx4091", ExitCode::usage, "did you mean 'rtx4090'?");
  expect_refused("fit tiny --budget 100KiB", ExitCode::does_not_fit, "for --batch 1",
                 "`snug plan` with --batch 1");
  expect_refused("fit tiny --of model --budget 1KiB", ExitCode::does_not_fit, "even tiny:24x2");
}

}  // namespace
}  // namespace snug
