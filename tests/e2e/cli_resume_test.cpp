// --resume: continues exactly, needs no other option, and names what would change the run.
#include <random>

#include "cli_fixture.h"

namespace snug {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class CliResume : public Cli {
 protected:
  // Saved after every second of six steps, under `out`.
  void train_six(const std::string& out, const std::string& more = "") {
    const Ended run = snug(train_ + " --steps 6 --save-every 2 --keep 9 --out " + out + more);
    ASSERT_EQ(run.code, 0) << run.err;
  }
  std::string file(const std::string& name) { return read_file(dir_ / name); }
  void expect_same_model(const std::string& a, const std::string& b) {
    EXPECT_TRUE(file(a + "/model.safetensors") == file(b + "/model.safetensors")) << a << " " << b;
    EXPECT_TRUE(file(a + "/step-00000006/state.safetensors") ==
                file(b + "/step-00000006/state.safetensors"))
        << a << " " << b;
  }

  const std::string train_ =
      "train tiny --device cpu --seq 16 --batch 2 --data text.txt --dropout 0.1 --warmup 2";
};

TEST_F(CliResume, IsTheSameRun) {
  train_six("a");
  EXPECT_EQ(trim(file("a/latest")), "step-00000006");
  std::filesystem::copy(dir_ / "a", dir_ / "b", std::filesystem::copy_options::recursive);
  const Ended run = snug("train --resume b/step-00000002");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("resumed: b/step-00000002, step 2 of 6"));
  expect_same_model("a", "b");
  for (const char* more : {" --recompute full", " --offload all", " --threads 1", " --budget 1GiB",
                           " --offload optimizer=disk --offload-dir ."}) {
    std::filesystem::remove_all(dir_ / "c");
    EXPECT_EQ(snug(std::string("train --resume a/step-00000004 --out c") + more).code, 0) << more;
    expect_same_model("a", "c");
  }
}

TEST_F(CliResume, HostUpdatesAreKeptWithTheirState) {
  train_six("a");
  train_six("h", " --offload optimizer,grads --host-update all");
  for (const char* more : {" --offload none", " --offload activations", " --threads 1"}) {
    std::filesystem::remove_all(dir_ / "c");
    const Ended run = snug(std::string("train --resume h/step-00000004 --out c") + more);
    EXPECT_EQ(run.code, 0) << more << run.err;
    EXPECT_TRUE(file("a/model.safetensors") == file("c/model.safetensors")) << more;
  }
}

TEST_F(CliResume, EarlierStepReportsLaterOnes) {
  train_six("a");
  const Ended run = snug("train --resume a/step-00000002 --keep 1");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr("later checkpoints are there, up to step 6: each stays until"));
  EXPECT_EQ(trim(file("a/latest")), "step-00000006");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "a/step-00000004"));
}

TEST_F(CliResume, ResumesAfterCtrlC) {
  train_six("a");
  const Ended stopped =
      snug(train_ + " --steps 6 --out b --json", {.interrupt_after = "\"step\":2,"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  const Ended run = snug("train --resume b");
  if (run.code != 0) {  // it was done before it was told
    EXPECT_THAT(run.err, HasSubstr("the run is complete, 6 of 6 steps"));
  }
  expect_same_model("a", "b");
}

TEST_F(CliResume, GracePeriodSavesOnlyCheckpoint) {
  const Ended stopped = snug(train_ + " --steps 1000000 --grace 0.000001s --out b --json",
                             {.interrupt_after = "\"step\":2,"});
  EXPECT_EQ(stopped.code, 0) << stopped.err;
  EXPECT_THAT(stopped.err, HasSubstr("--grace 0.000001s: a step of "));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "b/latest"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "b/model.safetensors"));
  EXPECT_EQ(snug("checkpoint b --export m").code, 0);
  EXPECT_EQ(snug("train m --data text.txt --seq 16 --steps 1").code, 0) << "it is a whole model";
  expect_refused(train_ + " --grace soon", kUsage, "--grace 'soon' is not a time", "--grace 30s");
  expect_refused(train_ + " --save-every often", kUsage, "neither a number of steps nor a time");
  expect_refused(train_ + " --save-every 0", kUsage, "neither a number of steps nor a time");
  expect_refused(train_ + " --keep 0", kUsage, "--keep is 0; it must be at least 1");
}

TEST_F(CliResume, NamesChangesOfResults) {
  train_six("a");
  expect_refused("train --resume a/step-00000002 --lr 1e-2 --batch 2 --out c", kUsage,
                 "--lr 0.01 (it has 0.0003) would change the results", "--resume-changed");
  expect_refused("train --resume a/step-00000002 --steps 9 --out c", kUsage,
                 "--steps 9 (it has 6)");
  expect_refused("train gpt2 --resume a/step-00000002 --out c", kUsage, "MODEL gpt2");
  expect_refused("train --resume a --out c", kUsage, "the run is complete, 6 of 6 steps are done");
  EXPECT_EQ(snug("train --resume a/step-00000002 --lr 1e-2 --resume-changed --out c").code, 0);
  EXPECT_FALSE(file("a/model.safetensors") == file("c/model.safetensors"));
}

TEST_F(CliResume, NamesDamagedFiles) {
  train_six("a");
  std::string state = file("a/step-00000004/state.safetensors");
  state[state.size() - 5] ^= 1;
  write("a/step-00000004/state.safetensors", state);
  expect_refused("train --resume a/step-00000004 --out c --quiet", kBadInput,
                 "is damaged: its checksum is", "snug checkpoint DIR --verify");
  write("a/step-00000004/state.safetensors", state.substr(0, state.size() / 2));
  expect_refused("train --resume a/step-00000004 --out c --quiet", kBadInput, "state.safetensors");
  std::string manifest = file("a/step-00000004/manifest.json");
  manifest.replace(manifest.find("\"step\": 4"), 9, "\"step\": 5");
  write("a/step-00000004/manifest.json", manifest);
  expect_refused("train --resume a/step-00000004 --out c", kBadInput,
                 "its bytes are not those that were written");
  write("a/latest", "step-00000099\n");
  expect_refused("train --resume a", kBadInput, "'latest' names step-00000099",
                 "--resume a/step-00000006");
  write("a/latest", "../a/step-00000002\n");
  expect_refused("train --resume a", kBadInput, "no name of a checkpoint");
  expect_refused("train --resume tiny", kBadInput, "it has no 'latest'", "no complete checkpoint");
}

TEST_F(CliResume, OtherDataIsRefused) {
  train_six("a");
  write("text.txt", file("text.txt") + "more");
  expect_refused("train --resume a/step-00000002 --out c", kBadInput, "the data is not what",
                 "--new-data");
  EXPECT_EQ(snug("train --resume a/step-00000002 --out c --new-data").code, 0);
}

TEST_F(CliResume, UsedDirectoryIsNotOverwritten) {
  train_six("a");
  expect_refused(train_ + " --steps 1 --out a", kUsage, "--out a is the directory of another run",
                 "--resume a continues");
  EXPECT_EQ(snug(train_ + " --steps 3 --seed 2 --out a --overwrite").code, 0);
  EXPECT_EQ(trim(file("a/latest")), "step-00000003");
  EXPECT_FALSE(std::filesystem::exists(dir_ / "a/step-00000006")) << "of the old run";
  EXPECT_EQ(snug("train tiny --device cpu --seq 16 --batch 2 --steps 1 --out m").code, 0);
  for (const char* name : {"latest", "step-00000001"})
    std::filesystem::remove_all(dir_ / "m" / name);
  expect_refused(train_ + " --steps 1 --out m", kUsage, "--out m holds a model", "--overwrite");
}

TEST_F(CliResume, UnreplaceableModelIsReportedBeforeFirstStep) {
  EXPECT_EQ(snug(train_ + " --steps 1 --out a").code, 0);
  nlohmann::json wide = tiny_config();
  wide["intermediate_size"] = 48;
  write("wide/config.json", wide.dump());
  const std::string config = file("a/config.json");
  const Ended run = run_snug(
      split("train ../wide --device cpu --seq 16 --batch 2 --steps 1 --out . --overwrite", ' '),
      {.directory = (dir_ / "a").string()});
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::bad_input));
  EXPECT_THAT(run.err,
              HasSubstr("could not be replaced by this one at the end: it is the working"));
  EXPECT_THAT(run.err, Not(HasSubstr("step     1")));
  EXPECT_EQ(file("a/config.json"), config);
}

TEST_F(CliResume, ReportsCostOfSavesBeforeFirstStep) {
  const Ended run = snug(train_ + " --steps 2 --save-every 1 --out a");
  EXPECT_LT(run.err.find("saves    every 1 step, 2"), run.err.find("checkpoint: a"));
  EXPECT_THAT(run.err, HasSubstr(" of disk during training, which waits for "));
  const Ended sync = snug(train_ + " --steps 2 --save-every 1 --save-sync --out b");
  EXPECT_THAT(sync.err, HasSubstr(" of disk, for which training waits\n"));
}

TEST_F(CliResume, AllowanceHoldsForOneRun) {
  train_six("other");
  train_six("a", " --overwrite");
  EXPECT_THAT(file("a/run.toml"), HasSubstr("overwrite = false\n"));
  expect_refused("train --resume a/step-00000002 --out other", kUsage,
                 "is the directory of another");
  std::filesystem::rename(dir_ / "other/step-00000004", dir_ / "a/step-00000001");
  EXPECT_EQ(snug("train --resume a/step-00000002").code, 0);
  EXPECT_TRUE(std::filesystem::exists(dir_ / "a/step-00000001")) << "of another run";
}

TEST_F(CliResume, KeepsNewestAndEveryMth) {
  const Ended run =
      snug(train_ + " --steps 9 --save-every 1 --keep 2 --keep-every 4 --out a --quiet");
  EXPECT_EQ(run.code, 0) << run.err;
  std::vector<std::string> left;
  for (const auto& entry : std::filesystem::directory_iterator(dir_ / "a"))
    if (entry.is_directory()) left.push_back(entry.path().filename().string());
  EXPECT_THAT(left,
              ::testing::UnorderedElementsAre("step-00000004", "step-00000008", "step-00000009"));
}

TEST_F(CliResume, SurvivesBeingKilledAnywhere) {
  const std::string line = train_ + " --steps 40 --save-every 1 --quiet --out ";
  ASSERT_EQ(snug(line + "whole").code, 0);
  const std::string want = file("whole/model.safetensors");
  std::mt19937 random(7);
  // Killed after its last save, it has nothing left to do.
  const auto is_done = [](const Ended& run) {
    return run.code == 0 || run.err.find("the run is complete") != std::string::npos;
  };
  constexpr int kKills = 40;
  int kills = 0;
  for (int left = kKills; left > 0;) {
    std::filesystem::remove_all(dir_ / "k");
    bool ended = false;
    for (bool begun = false; !ended && left > 0; --left) {
      const std::string seconds =
          fmt::format("{:.3f}", 0.02 + 0.0005 * static_cast<double>(random() % 800));
      std::vector<std::string> command{"timeout", "--foreground", "-s",
                                       "KILL",    seconds,        snug_binary()};
      for (const std::string& word : split(begun ? "train --resume k --quiet" : line + "k", ' '))
        command.push_back(word);
      const Ended run = run_command(command, {.directory = dir_.path()});
      ended = is_done(run);
      kills += ended ? 0 : 1;
      const bool saved = std::filesystem::exists(dir_ / "k/latest");
      ASSERT_TRUE(ended || run.code == 124 || run.code == 137) << run.code << run.err;
      ASSERT_TRUE(saved || !begun) << "latest is gone";
      begun = saved;
      if (!saved) std::filesystem::remove_all(dir_ / "k");
    }
    if (!ended && !std::filesystem::exists(dir_ / "k/latest")) continue;
    if (!ended) {
      const Ended run = snug("train --resume k --quiet");
      ASSERT_TRUE(is_done(run)) << run.code << run.err;
    }
    EXPECT_TRUE(file("k/model.safetensors") == want);
  }
  EXPECT_GT(kills, kKills / 4);
}

}  // namespace
}  // namespace snug
