// Training from the command line: step lines, saved models, saved configurations, data of every
// kind, Ctrl-C.
#include "cli_fixture.h"

namespace snug {
namespace {

const std::string kTrain = "train tiny --data text.txt --seq 16 --batch 2";
// What a run leaves in its directory after so many steps.
std::set<std::string> saved_at(int64_t step) {
  return {"config.json",
          "generation_config.json",
          "model.safetensors",
          "run.toml",
          "history.jsonl",
          "latest",
          fmt::format("step-{:08}", step)};
}

// run.toml, but for where it was written.
std::string without_out(const std::string& toml) {
  const size_t at = toml.find("\nout = ");
  return toml.substr(0, at) + toml.substr(toml.find('\n', at + 1));
}

class CliTrain : public Cli {
 protected:
  std::set<std::string> files_in(std::string_view directory) const {
    const auto names = testing::names_in(dir_ / directory);
    return {names.begin(), names.end()};
  }
};

TEST_F(CliTrain, OneJsonObjectPerStep) {
  const Ended run = snug(kTrain + " --steps 3 --json");
  ASSERT_EQ(run.code, 0) << run.err;
  const auto lines = lines_of(run);
  ASSERT_EQ(lines.size(), 3U);
  const auto plan = nlohmann::json::parse(snug("plan tiny --seq 16 --batch 2 --json").out);
  for (size_t i = 0; i < lines.size(); ++i) {
    for (const char* field : {"step", "loss", "grad_norm", "lr", "tokens", "tokens_per_s",
                              "planned_bytes", "peak_bytes"})
      EXPECT_TRUE(lines[i].contains(field)) << field;
    EXPECT_EQ(lines[i]["step"], i + 1);
    EXPECT_EQ(lines[i]["tokens"], (i + 1) * 2 * 16);
    EXPECT_EQ(lines[i]["planned_bytes"], plan["arena_bytes"]);
    EXPECT_EQ(lines[i]["peak_bytes"], plan["arena_bytes"]) << "measured";
  }
}

TEST_F(CliTrain, PrintsPlanDataAndSteps) {
  const Ended run = snug(kTrain + " --steps 2");
  EXPECT_THAT(run.err, ::testing::HasSubstr("device memory at the peak"));
  EXPECT_THAT(run.err, ::testing::HasSubstr("data: text.txt (1 file, "));
  EXPECT_THAT(run.err, ::testing::HasSubstr("done after 2 steps"));
  EXPECT_THAT(run.out, ::testing::StartsWith("step     1/2  loss "));
}

TEST_F(CliTrain, SameSeedGivesSameLosses) {
  const auto first = losses(kTrain + " --steps 5 --seed 7 --dropout 0.1");
  EXPECT_EQ(first, losses(kTrain + " --steps 5 --seed 7 --dropout 0.1"));
  EXPECT_NE(first, losses(kTrain + " --steps 5 --seed 8 --dropout 0.1"));
}

TEST_F(CliTrain, LearnsTheData) {
  const auto curve = losses(kTrain + " --steps 60 --lr 1e-2");
  EXPECT_LT(curve.back(), curve.front() - 1.5);
}

TEST_F(CliTrain, AccumulationIsALargerBatch) {
  const std::string train = "train tiny --data text.txt --seq 16 --steps 3 --no-shuffle";
  const auto large = losses(train + " --batch 4");
  const auto small = losses(train + " --batch 2 --accum 2");
  for (size_t i = 0; i < large.size(); ++i) EXPECT_NEAR(small[i], large[i], 1e-5 * large[i]);
}

TEST_F(CliTrain, SavedModelContinuesTraining) {
  const std::string held_out = " --seq 16 --batch 2 --eval-data text.txt --eval-batches 2 --json";
  const Ended first = snug("train tiny --data text.txt --steps 40 --lr 1e-2 --out a/b" + held_out);
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(files_in("a/b"), saved_at(40));
  const Ended second = snug("train a/b --data text.txt --steps 1 --out a/c" + held_out);
  ASSERT_EQ(second.code, 0) << second.err;
  EXPECT_EQ(eval_losses(second).front(), eval_losses(first).back()) << "the same bits were loaded";
  EXPECT_NEAR(lines_of(second)[1]["loss"].get<double>(), eval_losses(first).back(), 1.0);
  EXPECT_LT(eval_losses(first).back(), eval_losses(first).front() - 1.5) << "it had learnt";

  const Ended scratch = snug("train a/b --init scratch --data text.txt --steps 1" + held_out);
  EXPECT_EQ(eval_losses(scratch).front(), eval_losses(first).front());
}

TEST_F(CliTrain, SavedConfigurationRepeatsRun) {
  write("odd name/it's #1, \"x\".txt", std::string(200, 'a') + std::string(200, 'b'));
  const RunOptions here{.directory = dir_.path()};
  const Ended first =
      run_snug({"train", "tiny", "--data", "odd name/it's #1, \"x\".txt", "--seq", "16", "--batch",
                "2", "--lr", "1e-3", "--steps", "4", "--no-shuffle", "--out", "o", "--json"},
               here);
  ASSERT_EQ(first.code, 0) << first.err;
  const std::string saved = read_file(dir_ / "o/run.toml");
  EXPECT_THAT(saved, ::testing::HasSubstr("no-shuffle = true\n"));
  const Ended again = snug("train --config o/run.toml --out p");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(without_out(read_file(dir_ / "p/run.toml")), without_out(saved))
      << "resolving what is resolved changes nothing";
  ASSERT_EQ(lines_of(again).size(), 4U);
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(lines_of(again)[i]["loss"], lines_of(first)[i]["loss"]);
  EXPECT_EQ(lines_of(snug("train --config o/run.toml --steps 2 --out q")).size(), 2U)
      << "the command line wins";
}

TEST_F(CliTrain, HoldsOutAndEvaluates) {
  const Ended run = snug(kTrain + " --steps 4 --holdout 0.1 --eval-every 2 --json");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(eval_losses(run).size(), 3U) << "before the first step, after two and four";
  EXPECT_THAT(run.err, ::testing::HasSubstr("held out: "));
  expect_refused(kTrain + " --holdout 0.95", ExitCode::usage, "--holdout is 0.95");
}

TEST_F(CliTrain, NullDeviceTrainsNothingAndReportsIt) {
  const Ended run = snug(kTrain + " --device null --out o");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, ::testing::HasSubstr("nothing was computed"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "o"));
}

// --- token files: the same tokens in every format train the same model --------------------------

std::string int32s(const std::vector<int32_t>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(int32_t)};
}
std::string padded(std::string header) {
  header.resize(1024);
  return header;
}

TEST_F(CliTrain, TokenFilesOfOtherTrainers) {
  const std::string text = read_file(dir_ / "text.txt");
  const auto n = static_cast<int32_t>(text.size());
  std::string tokens;
  for (const char c : text) tokens += {c, '\0'};
  write("nano.bin", tokens);
  write("llmc.bin", padded(int32s({20240520, 1, n})) + tokens);
  write("llmq.bin", padded("BIN.TOK\n" + int32s({1, 2, n, 256, 0})) + tokens);
  const auto want = losses(kTrain + " --steps 3");
  for (const std::string file : {"nano", "llmc", "llmq"})
    EXPECT_EQ(losses("train tiny --seq 16 --batch 2 --steps 3 --data " + file + ".bin"), want)
        << file;
}

// --- Ctrl-C and terminals -----------------------------------------------------------------------

TEST_F(CliTrain, CtrlCFinishesTheStepAndSaves) {
  const Ended run =
      snug(kTrain + " --steps 10000000 --out o --json", {.interrupt_after = "\"step\":3,"});
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, ::testing::HasSubstr("stopped as asked after "));
  const auto lines = lines_of(run);  // every line is whole
  EXPECT_GE(lines.size(), 3U);
  EXPECT_EQ(lines.back()["step"], lines.size());
  EXPECT_EQ(files_in("o"), saved_at(lines.back()["step"])) << "nothing half-written";
  EXPECT_EQ(snug("train o --data text.txt --seq 16 --steps 1").code, 0) << "it is a whole model";
}

TEST_F(CliTrain, StatusLineKeepsOtherLines) {
  const Ended run =
      snug(kTrain + " --steps 5 --log-every 1 --holdout 0.1 --eval-every 2", {.terminal = true});
  ASSERT_EQ(run.code, 0) << run.out;
  int steps = 0;
  int bars = 0;
  for (const std::string& line : split(run.out, '\n')) {
    const size_t cleared = line.rfind("\r\x1b[K");  // what came before it is cleared
    bars += line.find("░") < cleared && cleared != line.npos;
    const std::string seen = cleared == line.npos ? line : line.substr(cleared + 4);
    EXPECT_THAT(seen, ::testing::Not(::testing::HasSubstr("░")));
    steps += seen.starts_with("step ");
  }
  EXPECT_EQ(bars, 4) << "after every step but the last";
  EXPECT_EQ(steps, 5 + 4) << "every step and every evaluation has its line";
}

}  // namespace
}  // namespace snug
