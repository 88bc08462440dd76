// snug calibrate, and what trainings say of predictions, as typed.
#include "base/testing.h"
#include "cli_fixture.h"
#include "hal/cuda/probe.h"

namespace snug {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// What is cached goes to the test's own folder.
class CliCalibrate : public Cli {
 protected:
  std::filesystem::path calibrated() {
    const Ended run = snug("calibrate --seconds 0.001 --json");
    EXPECT_EQ(run.code, 0) << run.err;
    return nlohmann::json::parse(run.out)["path"].get<std::string>();
  }

 private:
  testing::Environment cache_{"XDG_CACHE_HOME", (dir_ / "cache").string()};
};

TEST_F(CliCalibrate, ReportsMeasurementsAndTheirFile) {
  const Ended run = snug("calibrate --seconds 0.001");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr(" 1/")) << "progress";
  EXPECT_THAT(run.out, HasSubstr("FLOP/s"));
  EXPECT_THAT(run.out, HasSubstr("keep the catalogue")) << "most was not timed";
  EXPECT_THAT(run.out, HasSubstr("kept in "));
  for (const std::string& line : split(run.out, '\n'))
    EXPECT_TRUE(line.size() <= 100 || line.starts_with("kept in ")) << line;
}

TEST_F(CliCalibrate, NoTimeLessThanNoneIsTaken) {
  const Ended run = snug("calibrate --seconds -3");
  EXPECT_EQ(run.code, 2);
  EXPECT_THAT(run.err, HasSubstr("--seconds is -3; it must be between 0 and 86400"));
}

TEST_F(CliCalibrate, PlanNamesSourceOfTimes) {
  const std::string train = "train tiny --data text.txt --batch 2 --seq 16 --steps 3";
  const Ended before = snug(train);
  EXPECT_EQ(before.code, 0) << before.err;
  EXPECT_THAT(before.err, Not(HasSubstr("was predicted"))) << "nominal figures promise nothing";
  const std::filesystem::path path = calibrated();
  EXPECT_TRUE(std::filesystem::exists(path));
  EXPECT_THAT(snug(train).err, HasSubstr("a step was predicted to take "));
}

TEST_F(CliCalibrate, CollectivesBetweenRanksAreMeasured) {
  const std::string plan = "plan tiny --batch 2 --seq 16 --device cpu --zero 1 --ranks ";
  EXPECT_THAT(snug(plan + "3").out, HasSubstr("by the catalogue"));
  const Ended run = snug("calibrate --device cpu --ranks 3");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr(": 3 ranks over sockets\na collective takes "));
  EXPECT_THAT(snug(plan + "3").out, HasSubstr(" a call over sockets, measured"));
  EXPECT_THAT(snug(plan + "2").out, HasSubstr("by the catalogue"));
}

TEST_F(CliCalibrate, DamagedFileIsIgnoredWithWarning) {
  const std::filesystem::path path = calibrated();
  std::filesystem::resize_file(path, 100);
  const Ended run = snug("plan tiny --batch 2 --seq 16");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, HasSubstr(path.filename().string()));
  calibrated();
  EXPECT_THAT(snug("plan tiny --batch 2 --seq 16").err, Not(HasSubstr("calibration-")));
}

TEST_F(CliCalibrate, ExplainComparesStepBytesAndOps) {
  const std::string train = "train snug-tiny --batch 2 --seq 32 --steps 3 --explain";
  const Ended words = snug(train);
  EXPECT_EQ(words.code, 0) << words.err;
  EXPECT_THAT(words.out, HasSubstr("times predicted by "));
  EXPECT_THAT(words.out, HasSubstr("bytes of the arena"));
  EXPECT_THAT(words.out, HasSubstr("linear"));

  const Ended numbers = snug(train + " --json");
  const std::vector<nlohmann::json> lines = lines_of(numbers);
  ASSERT_EQ(lines.size(), 4U) << "three steps and the comparison";
  const nlohmann::json prediction = lines.back()["truth"];
  EXPECT_EQ(prediction["planned_bytes"], lines[0]["planned_bytes"]);
  EXPECT_EQ(prediction["planned_bytes"], prediction["peak_bytes"]);
  double sum = 0;
  for (const nlohmann::json& op : prediction["ops"]) sum += op["predicted_ms"].get<double>();
  EXPECT_NEAR(sum, prediction["predicted_step_ms"], 0.01 * sum);
  EXPECT_GT(prediction["measured_step_ms"], 0);
}

TEST_F(CliCalibrate, ExplainingChangesNoSavedFile) {
  const std::string train = "train tiny --data text.txt --batch 2 --seq 16 --steps 2 --out ";
  EXPECT_EQ(snug(train + "a").code, 0);
  EXPECT_EQ(snug(train + "b --explain").code, 0);
  EXPECT_EQ(read_file(dir_ / "a/model.safetensors"), read_file(dir_ / "b/model.safetensors"));
}

TEST_F(CliCalibrate, RefusesUnmeasurableTargets) {
  expect_refused("calibrate --device null", ExitCode::usage,
                 "--device null: there is nothing to measure");
  expect_refused("calibrate --threads -1", ExitCode::usage, "--threads");
  expect_refused("calibrate gpt2", ExitCode::usage, "does not know what to do with 'gpt2'");
  if (const std::string why = why_no_cuda(); !why.empty()) {
    expect_refused("calibrate --device cuda", ExitCode::device, why, "snug doctor");
  }
}

}  // namespace
}  // namespace snug
