// snug train in a job of several ranks: how they start, and what a wrong start says.
#include "cli_fixture.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

class CliRanks : public Cli {
 protected:
  static constexpr const char* kTrain = "train tiny --data text.txt --batch 2 --seq 16 --steps 1";
};

TEST_F(CliRanks, HalfAnEnvironmentIsRefused) {
  const Ended half = snug(kTrain, {.environment = {{"RANK", "1"}}});
  EXPECT_EQ(half.code, 2);
  EXPECT_THAT(half.err, HasSubstr("snug: the environment has RANK=1 and no WORLD_SIZE\n"));
}

TEST_F(CliRanks, UnreachableAddress) {
  const Ended lost = snug(kTrain, {.environment = {{"RANK", "1"},
                                                   {"WORLD_SIZE", "2"},
                                                   {"MASTER_ADDR", "127.0.0.1"},
                                                   {"MASTER_PORT", "1"},
                                                   {"SNUG_JOB_TIMEOUT", "0.2"}}});
  EXPECT_EQ(lost.code, 5);
  EXPECT_THAT(lost.err, HasSubstr("rank 1 found no rank 0 at 127.0.0.1:1 in 0.2 s"));
}

TEST_F(CliRanks, DifferingOptionsAreNamedOnce) {
  const Ended job = run_snug_in_shell(
      "export WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 SNUG_JOB_TIMEOUT=20\n"
      "export MASTER_PORT=$((20000 + $$ % 20000))\n"
      "RANK=1 \"$@\" --lr 1 & RANK=0 \"$@\"; code=$?; wait $!; test $? = $code && exit $code",
      split(kTrain, ' '), {.directory = dir_.path()});
  EXPECT_EQ(job.code, 2);
  EXPECT_THAT(job.err, HasSubstr("the ranks differ in their options: rank 1 on "));
  EXPECT_THAT(job.err, HasSubstr("has '--lr 1', rank 0 on "));
  EXPECT_EQ(job.err.find("the ranks differ"), job.err.rfind("the ranks differ"));
}

TEST_F(CliRanks, RankCountContradictsLauncher) {
  expect_refused("train tiny --ranks 5000", kUsage, "--ranks is 5000");
  const Ended other = snug(std::string(kTrain) + " --ranks 3",
                           {.environment = {{"OMPI_COMM_WORLD_RANK", "0"},
                                            {"OMPI_COMM_WORLD_SIZE", "2"},
                                            {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}}});
  EXPECT_EQ(other.code, 2);
  EXPECT_THAT(other.err, HasSubstr("--ranks 3, and this is rank 0 of 2 that mpirun has started"));
}

// Ranks are processes here, over sockets.
TEST_F(CliRanks, JobMatchesModelOfOneDevice) {
  const std::string train =
      "train " + std::string(SNUG_TEST_DIR) +
      "/llama-wide.json --data text.txt --bytes --seq 24 --steps 3 --deterministic --holdout 0.2 "
      "--eval-batches 3 --global-batch 5";
  const Ended one = snug(train + " --batch 1 --out one");
  ASSERT_EQ(one.code, 0) << one.err;
  const std::string model = read_file(dir_.path() / "one/model.safetensors");
  for (const char* ranks : {"--ranks 2 --zero 0", "--ranks 4 --zero 1 --zero-threshold 0",
                            "--ranks 2 --shard full --zero-threshold 0",
                            "--ranks 4 --shard hybrid:2 --zero-threshold 0"}) {
    SCOPED_TRACE(ranks);
    const Ended job = snug(train + " --batch 1 --overwrite --out job " + ranks);
    ASSERT_EQ(job.code, 0) << job.err;
    EXPECT_TRUE(read_file(dir_.path() / "job/model.safetensors") == model);
    EXPECT_THAT(job.out + job.err, HasSubstr("planned and measured"));
  }
}

// Stages are ranks, too: with one data-parallel rank in each, no rank writes over another's files.
TEST_F(CliRanks, EveryRankOfMeshHasOwnProfile) {
  const Ended job =
      snug("train tiny --data text.txt --batch 4 --seq 16 --steps 4 --ranks 2 --pp 2" +
           std::string(" --profile=2 --out o"));
  ASSERT_EQ(job.code, 0) << job.err;
  EXPECT_FALSE(std::filesystem::exists(dir_ / "o/profile/spans.jsonl"));
  for (const char* rank : {"rank-0", "rank-1"}) {
    const std::string spans = read_file(dir_ / "o/profile" / rank / "spans.jsonl");
    EXPECT_THAT(spans, HasSubstr(R"("axis":"pp","ranks":2,"stride":1,"peer":)")) << rank;
  }
  EXPECT_NE(read_file(dir_ / "o/profile/rank-0/spans.csv"),
            read_file(dir_ / "o/profile/rank-1/spans.csv"));
}

TEST_F(CliRanks, UnsupportedOrDuplicateOptionsAreRefused) {
  expect_refused("train tiny --zero 3", kUsage, "--zero 3 with one rank");
  expect_refused("plan tiny --ranks 2 --zero 3 --shard full", kUsage, "say the same thing twice");
  expect_refused("plan tiny --ranks 4 --shard hybrid:3", kUsage, "no whole number of such groups");
  expect_refused("plan tiny --ranks 4 --shard hybrid:1", kUsage, "two ranks or more");
  expect_refused("plan tiny --ranks 4 --shard hybrid", kUsage, "--shard 'hybrid'");
  expect_refused("plan tiny --ranks 4 --shard hybrid:2 --zero 0", kUsage, "--zero 0");
  expect_refused("plan tiny --ranks 2 --zero 4", kUsage, "--zero '4'");
  expect_refused("plan tiny --gpu h100x8 --ranks 4", kUsage, "a rank has a GPU of its own");
  expect_refused("plan tiny --ranks 4 --global-batch 3", kUsage, "less than one sequence");
  expect_refused("plan tiny --ranks 2 --zero 1 --offload params", kUsage, "in shards");
}

// Words that no rank would understand are refused before any is started.
TEST_F(CliRanks, WrongWordsAreReportedOnce) {
  const Ended wrong = snug("train tiny --ranks 3 --bacth 4");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_EQ(wrong.err.find("--bacth"), wrong.err.rfind("--bacth"));
}

}  // namespace
}  // namespace snug
