// snug profile, train --profile, the history in --out, events for TensorBoard, and what a terminal
// shows.
#include <cstdlib>
#include <filesystem>

#include "cli_fixture.h"
#include "support/small_run.h"

namespace snug {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTiny = "train tiny --data text.txt --seq 16 --batch 2";

class CliProfile : public Cli {
 protected:
  std::vector<nlohmann::json> history(const char* directory) {
    std::vector<nlohmann::json> lines;
    for (const std::string& line : split(trim(read_file(dir_ / directory / "history.jsonl")), '\n'))
      lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  std::vector<int64_t> steps_of_history(const char* directory) {
    std::vector<int64_t> steps;
    for (const auto& line : history(directory)) steps.push_back(line["step"]);
    return steps;
  }
};

TEST_F(CliProfile, ProfileChangesNoLossBit) {
  const std::string line = kTiny + " --steps 12 --accum 2";
  const std::vector<double> plain = losses(line);
  ASSERT_EQ(plain.size(), 12U);
  EXPECT_EQ(losses(line + " --profile=4 --profile-dir p"), plain);
  const std::string moved = line + " --offload all=host";
  EXPECT_EQ(losses(moved + " --profile"), losses(moved));
}

TEST_F(CliProfile, TrainWritesFilesNextToModel) {
  const Ended run = snug(kTiny + " --steps 9 --profile --out o");
  ASSERT_EQ(run.code, 0) << run.err;
  for (const char* part : {"profile of 3 steps", "overhead of the profile", "lanes, busy",
                           "kinds of ops", "device memory", "unneeded memory"})
    EXPECT_THAT(run.out, HasSubstr(part));
  for (const char* file :
       {"trace.json", "trace.pftrace", "spans.jsonl", "spans.csv", "snapshot.pickle"})
    EXPECT_TRUE(fs::exists(dir_ / "o/profile" / file)) << file;
  const auto trace = nlohmann::json::parse(read_file(dir_ / "o/profile/trace.json"));
  EXPECT_GT(trace["traceEvents"].size(), 100U);
}

TEST_F(CliProfile, VerbWritesOnlyItsFiles) {
  const std::set<std::string> before = tree();
  const Ended run = snug("profile tiny --seq 16 --batch 2");
  ASSERT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("profile of 3 steps"));
  EXPECT_EQ(tree(), before);
  const Ended json = snug("profile tiny --seq 16 --batch 2 --profile 2 --json --profile-dir p");
  ASSERT_EQ(json.code, 0) << json.err;
  const auto profile = lines_of(json).at(0)["profile"];
  EXPECT_EQ(profile["steps"], 2);
  EXPECT_GT(profile["step"]["measured_ms"], 0);
  EXPECT_EQ(profile["planned_bytes"], profile["peak_bytes"]);
  EXPECT_EQ(profile["held_bytes"], 0);
  EXPECT_TRUE(fs::exists(dir_ / "p/trace.json"));
  expect_refused("profile tiny --out o", kUsage, "trains nothing that could be kept");
}

TEST_F(CliProfile, EverythingIsPredictedWithoutDevice) {
  const Ended run = snug("profile tiny --seq 16 --batch 2 --device null --json --profile-dir p");
  ASSERT_EQ(run.code, 0) << run.err;
  const auto profile = lines_of(run).at(0)["profile"];
  EXPECT_EQ(profile["steps"], 0);
  EXPECT_EQ(profile["step"]["measured_ms"], 0);
  EXPECT_GT(profile["step"]["predicted_ms"], 0);
  EXPECT_THAT(read_file(dir_ / "p/spans.csv"), Not(HasSubstr("measured")));
}

TEST_F(CliProfile, HistoryHasEveryStepOnce) {
  const Ended first =
      snug(kTiny + " --steps 6 --lr-schedule constant --save-every 2 --keep 9 --out o");
  ASSERT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(steps_of_history("o"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  const auto line = history("o").at(3);
  for (const char* key : {"loss", "lr", "grad_norm", "tokens_per_s", "samples_per_s", "seconds",
                          "allocated_bytes", "peak_bytes", "context_bytes", "process_bytes",
                          "utilisation", "watts", "clock_mhz", "hours_left"})
    EXPECT_TRUE(line.contains(key)) << key;
  EXPECT_EQ(line["allocated_bytes"], line["peak_bytes"]);
  EXPECT_TRUE(line["watts"].is_null());
  EXPECT_EQ(history("o").back()["hours_left"], 0);

  const Ended again = snug("train --resume o/step-00000004 --steps 8");
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(steps_of_history("o"), (std::vector<int64_t>{1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(history("o").at(3), line);

  const Ended other = snug("train --resume o --steps 10 --out q");
  ASSERT_EQ(other.code, 0) << other.err;
  EXPECT_EQ(steps_of_history("q").size(), 10U) << "with the steps of the run that it resumes";
}

TEST_F(CliProfile, EvaluationsAreInTheHistory) {
  const Ended run = snug(kTiny + " --steps 4 --holdout 0.2 --eval-every 2 --out o");
  ASSERT_EQ(run.code, 0) << run.err;
  int evaluations = 0;
  for (const auto& line : history("o")) evaluations += line.contains("eval_loss") ? 1 : 0;
  EXPECT_EQ(evaluations, 3);
}

TEST_F(CliProfile, TensorboardGetsItsEvents) {
  const Ended run = snug(kTiny + " --steps 3 --tensorboard logs/a");
  ASSERT_EQ(run.code, 0) << run.err;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(dir_ / "logs/a")) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 1U);
  const std::string bytes = read_file(files[0]);
  for (const char* tag :
       {"train/loss", "train/lr", "train/grad_norm", "speed/tokens_per_s", "memory/activations"})
    EXPECT_THAT(bytes, HasSubstr(tag));
  for (const char* option : {"tensorboard", "profile-dir"})
    expect_refused(kTiny + " --steps 3 --" + option + " text.txt/a", kUsage,
                   "cannot be written to");
}

// With tensorboard, perfetto and torch where that Python has them.
TEST_F(CliProfile, OtherToolsReadTheFiles) {
  const Ended run = snug(kTiny +
                         " --steps 9 --accum 2 --offload all=host --profile --json --out o"
                         " --tensorboard logs");
  ASSERT_EQ(run.code, 0) << run.err;
  const auto profile = lines_of(run).back()["profile"];
  const int64_t most =
      profile["planned_bytes"].get<int64_t>() - profile["gap_bytes"].get<int64_t>();
  const char* chosen = std::getenv("SNUG_PYTHON");
  const Ended read = run_command(
      {chosen == nullptr ? "python3" : chosen, tests_dir() + "/../tools/check_profile.py",
       (dir_ / "o/profile").string(), (dir_ / "logs").string(), std::to_string(most)},
      {.directory = dir_.path()});
  if (read.code == 127 && chosen == nullptr) GTEST_SKIP() << "no Python here";
  EXPECT_EQ(read.code, 0) << read.out << read.err;
  EXPECT_THAT(read.out, HasSubstr("most at once " + std::to_string(most)));
  EXPECT_THAT(read.out, HasSubstr("trace.pftrace: "));
}

TEST_F(CliProfile, TerminalShowsOneLineLogShowsAll) {
  const Ended terminal = snug(kTiny + " --steps 5 --budget 1GiB", {.terminal = true});
  ASSERT_EQ(terminal.code, 0) << terminal.out;
  EXPECT_THAT(terminal.out, HasSubstr("step 3/5"));
  EXPECT_THAT(terminal.out, HasSubstr("tok/s"));
  EXPECT_THAT(terminal.out, HasSubstr(" of 1.00 GiB"));
  EXPECT_THAT(terminal.out, Not(HasSubstr("step     3/5")));
  EXPECT_THAT(terminal.out, HasSubstr("step     5/5")) << "how it ended stays";

  const Ended every = snug(kTiny + " --steps 5 --log-every 2", {.terminal = true});
  for (const char* line : {"step     2/5", "step     4/5", "step     5/5"})
    EXPECT_THAT(every.out, HasSubstr(line));
  EXPECT_THAT(every.out, Not(HasSubstr("step     3/5")));

  const Ended log = snug(kTiny + " --steps 5");
  for (const char* line : {"step     1/5", "step     3/5", "step     5/5"})
    EXPECT_THAT(log.out, HasSubstr(line));
}

}  // namespace
}  // namespace snug
