// snug checkpoint: what a run has saved, whether it is whole, and the model in it.
#include "cli_fixture.h"

namespace snug {
namespace {

using ::testing::HasSubstr;

class CliCheckpoint : public Cli {
 protected:
  void SetUp() override {
    const Ended run = snug(
        "train tiny --device cpu --seq 16 --batch 2 --data text.txt --precision bf16 --steps 4 "
        "--save-every 2 --keep 5 --out a --quiet");
    ASSERT_EQ(run.code, 0) << run.err;
  }
};

TEST_F(CliCheckpoint, ListsAndVerifies) {
  const Ended list = snug("checkpoint a");
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_THAT(list.out, HasSubstr("step-00000002         2 of 4"));
  EXPECT_THAT(list.out, HasSubstr("complete  tiny, 2 sequences of 16, bf16, adamw  <- latest\n"));
  const auto json = nlohmann::json::parse(snug("checkpoint a --verify --json").out);
  ASSERT_EQ(json.size(), 2U);
  EXPECT_EQ(json[1]["step"], 4);
  EXPECT_EQ(json[1]["latest"], true);
  EXPECT_EQ(json[1]["verified"], true);
  EXPECT_EQ(json[0]["run"], json[1]["run"]);

  std::string state = read_file(dir_ / "a/step-00000002/state.safetensors");
  state[state.size() - 9] ^= 64;
  write("a/step-00000002/state.safetensors", state);
  EXPECT_EQ(snug("checkpoint a").code, 0) << "its names and sizes are right";
  const Ended verified = snug("checkpoint a --verify");
  EXPECT_EQ(verified.code, static_cast<int>(kBadInput));
  EXPECT_THAT(verified.out, HasSubstr("damaged"));
  EXPECT_THAT(verified.out, HasSubstr("in state.safetensors is damaged: its checksum is"));
  EXPECT_THAT(verified.out, HasSubstr("verified"));
  std::filesystem::remove(dir_ / "a/step-00000002/state.safetensors");
  EXPECT_EQ(snug("checkpoint a/step-00000002").code, static_cast<int>(kBadInput));
}

TEST_F(CliCheckpoint, ExportsSavedModel) {
  EXPECT_EQ(snug("checkpoint a --export m").code, 0);
  for (const char* name : {"model.safetensors", "config.json"})
    EXPECT_EQ(read_file(dir_ / "m" / name), read_file(dir_ / "a" / name)) << name;
  expect_refused("checkpoint a --export m", kUsage, "--export m: it holds a model or a run");
  std::filesystem::remove_all(dir_ / "tiny");
  EXPECT_EQ(snug("checkpoint a/step-00000002 --export n").code, 0) << "it has its own config";
  EXPECT_NE(read_file(dir_ / "n/model.safetensors"), read_file(dir_ / "a/model.safetensors"));
}

TEST_F(CliCheckpoint, ReportsDifferences) {
  const Ended diff = snug("checkpoint --diff a/step-00000002 a");
  EXPECT_EQ(diff.code, 0) << diff.err;
  EXPECT_THAT(diff.out, HasSubstr("step: 2 -> 4\nposition: 4 -> 8\n"));
  EXPECT_THAT(diff.out, HasSubstr("0 values have the same bytes, "));
  EXPECT_THAT(snug("checkpoint --diff a a").out, HasSubstr(" have the same bytes, 0 other ones\n"));
}

TEST_F(CliCheckpoint, RefusesOtherDirectories) {
  expect_refused("checkpoint tiny", kBadInput, "tiny holds no checkpoint", "--out directory");
  expect_refused("checkpoint", kUsage, "needs the directory of a run");
  expect_refused("checkpoint --diff a", kUsage, "--diff");
}

}  // namespace
}  // namespace snug
