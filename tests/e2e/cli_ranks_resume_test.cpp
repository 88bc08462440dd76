// Checkpoints of a job: every rank writes its pieces, and any number of ranks resumes from them.
#include <filesystem>

#include "cli_fixture.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

class CliRanksResume : public Cli {
 protected:
  // Saved after every second of six steps, unless `more` says otherwise.
  std::string train(const std::string& out, const std::string& more = "") const {
    return "train " + std::string(SNUG_TEST_DIR) +
           "/llama-wide.json --device cpu --data text.txt --bytes --seq 24 --steps 6 --warmup 2 "
           "--dropout 0.1 --deterministic --batch 1 --global-batch 5 --grad-dtype fp32 "
           "--keep 9 --out " +
           out + (more.find("--save-every") == std::string::npos ? " --save-every 2" : "") + more;
  }
  void expect_ends(const std::string& command) {
    const Ended run = snug(command);
    ASSERT_EQ(run.code, 0) << command << "\n" << run.err;
    said_ = run.err;
  }
  std::string model(const std::string& out) { return read_file(dir_ / out / "model.safetensors"); }
  std::string said_;
};

constexpr const char* kZero3 = " --ranks 3 --zero 3 --zero-threshold 0";

// Stages differ in what is cut: state, and parameters, too.
TEST_F(CliRanksResume, AnyRankCountContinuesSameRun) {
  expect_ends(train("one"));
  const std::string model_of_one = model("one");
  const auto goes_on = [&](const std::string& from, const std::string& how) {
    SCOPED_TRACE(from + how);
    fs::remove_all(dir_ / "on");
    expect_ends("train --resume " + from + " --out on" + how);
    EXPECT_TRUE(model("on") == model_of_one);
  };
  expect_ends(train("zero3", kZero3));
  EXPECT_TRUE(model("zero3") == model_of_one);
  EXPECT_TRUE(fs::exists(dir_ / "zero3/step-00000004/state-00002.safetensors"));
  goes_on("zero3/step-00000002", " --ranks 3");
  EXPECT_THAT(said_, HasSubstr("resumed: zero3/step-00000002, step 2 of 6\n"));
  goes_on("zero3/step-00000004", "");
  EXPECT_THAT(said_, HasSubstr("step 4 of 6, on 1 rank after 3\n"));
  goes_on("zero3/step-00000004", " --ranks 2 --zero 1");
  goes_on("zero3/step-00000004", " --ranks 4 --shard full --zero-threshold 0 --offload all");
  goes_on("one/step-00000002", " --ranks 3 --zero 2 --zero-threshold 0");
  expect_ends("checkpoint zero3/step-00000006 --export exported");
  EXPECT_TRUE(model("exported") == model_of_one);
}

// A search under a budget would rather take all sequences of a rank at once.
TEST_F(CliRanksResume, MicroBatchSizeIsKeptUnderBudget) {
  const std::string budget = " --budget 1GiB";
  expect_ends(train("one", budget + " --accum 5"));
  expect_ends(train("all", budget + " --accum 2 --ranks 3 --zero 2 --zero-threshold 0"));
  EXPECT_TRUE(model("all") == model("one"));
  for (const std::string ranks : {"1", "2", "4"}) {
    fs::remove_all(dir_ / "on");
    expect_ends("train --resume all/step-00000004 --out on --ranks " + ranks);
    EXPECT_TRUE(model("on") == model("one")) << ranks;
  }
}

// State of eight bits has a scale for every block, and is cut with its parameter.
TEST_F(CliRanksResume, StateOfEightBits) {
  const std::string kind = " --optimizer adamw8bit --precision bf16";
  expect_ends(train("one", kind));
  expect_ends(train("zero2", kind + " --ranks 2 --zero 2 --zero-threshold 0"));
  EXPECT_TRUE(model("zero2") == model("one"));
  for (const char* how : {"", " --ranks 2", " --ranks 3 --zero 3 --zero-threshold 0"}) {
    SCOPED_TRACE(how);
    fs::remove_all(dir_ / "on");
    expect_ends(std::string("train --resume zero2/step-00000002 --out on") + how);
    EXPECT_TRUE(model("on") == model("one"));
  }
}

TEST_F(CliRanksResume, MissingOrDamagedFilesAreNamed) {
  expect_ends(train("run", kZero3));
  const fs::path piece = dir_ / "run/step-00000004/state-00001.safetensors";
  // Read in other pieces than it was written, so that no rank reads one of them whole.
  std::string bytes = read_file(piece);
  bytes[bytes.size() - 100] ^= 1;
  write_file_atomically(piece, bytes);
  for (const char* how : {" --ranks 3", " --ranks 2", ""}) {
    const Ended damaged = snug(std::string("train --resume run/step-00000004 --out on") + how);
    EXPECT_EQ(damaged.code, 4) << how << damaged.err;
    EXPECT_THAT(damaged.err, HasSubstr("in state-00001.safetensors is damaged: its checksum is"));
  }
  EXPECT_EQ(snug("checkpoint run --verify").code, 4);
  fs::remove(piece);
  const Ended missing = snug("train --resume run/step-00000004 --out on --ranks 3");
  EXPECT_EQ(missing.code, 4);
  EXPECT_THAT(missing.err, HasSubstr("state-00001.safetensors: No such file or directory"));
  EXPECT_EQ(missing.err.find("snug: "), missing.err.rfind("snug: ")) << missing.err;
}

TEST_F(CliRanksResume, NonFiniteLossRollsBackAllRanks) {
  const Ended run = snug(train(
      "run", std::string(kZero3) + " --precision fp16 --optimizer sgd --clip 0 --lr 1000 "
                                   "--lr-schedule constant --save-every 1 --on-nan rollback:1"));
  EXPECT_EQ(run.code, 5);
  EXPECT_THAT(run.err, HasSubstr(": back to step 1, without samples "));
  EXPECT_THAT(run.err, HasSubstr("resumed: run/step-00000001, step 1 of 6\n"));
  EXPECT_THAT(run.err, HasSubstr("; it first appears in layer ")) << "then it stops";
  EXPECT_THAT(run.err, HasSubstr(" and saved in run"));
  EXPECT_FALSE(model("run").empty());
}

TEST_F(CliRanksResume, CtrlCPrintsResumeCommand) {
  expect_ends(train("whole", kZero3));
  const Ended stopped =
      snug(train("run", std::string(kZero3) + " --json"), {.interrupt_after = "\"step\":3,"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(trim(read_file(dir_ / "run/latest")), HasSubstr("step-0000000"));
  if (trim(read_file(dir_ / "run/latest")) == "step-00000006") return;  // it was quicker
  expect_ends("train --resume run --ranks 3");
  EXPECT_TRUE(model("run") == model("whole"));
}

}  // namespace
}  // namespace snug
