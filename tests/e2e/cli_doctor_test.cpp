// snug doctor as typed. The tests know nothing of the machine they run on: with a GPU or without,
// the report is complete and says one thing, not two.
#include "cli_fixture.h"

namespace snug {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

class CliDoctor : public Cli {
 protected:
  nlohmann::json report(RunOptions options = {}) {
    const Ended run = snug("doctor --json", std::move(options));
    EXPECT_EQ(run.code, 0) << run.err;
    return nlohmann::json::parse(run.out);
  }
};

TEST_F(CliDoctor, TableDescribesMachine) {
  const Ended run = snug("doctor");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  EXPECT_THAT(run.out, ContainsRegex("host +[0-9]+ CPU cores?, [0-9.]+ [GT]iB of memory, "));
  for (const char* row : {"driver", "CUDA", "GPU", "missing"}) EXPECT_THAT(run.out, HasSubstr(row));
  for (const std::string& line : split(run.out, '\n')) EXPECT_LE(line.size(), 102U) << line;
}

TEST_F(CliDoctor, ObjectMatchesTable) {
  const nlohmann::json all = report();
  EXPECT_GT(all["host"]["cores"], 0);
  EXPECT_GE(all["host"]["memory_bytes"], all["host"]["available_bytes"]);
  const bool usable = all["why_no_gpu"].is_null();
  EXPECT_TRUE(!usable || !all["gpus"].empty());
  EXPECT_TRUE(usable || !all["missing"].empty()) << "what would have to change is named";
  for (const nlohmann::json& missing : all["missing"]) {
    EXPECT_THAT(missing["costs"].get<std::string>(), ::testing::EndsWith("."));
    EXPECT_THAT(missing["get"].get<std::string>(), ::testing::EndsWith("."));
  }
  for (const nlohmann::json& gpu : all["gpus"]) EXPECT_NE(gpu["name"], "");
}

TEST_F(CliDoctor, Refusals) {
  expect_refused("doctor --jsn", ExitCode::usage, "snug doctor has no option '--jsn'");
  expect_refused("doctor gpt2", ExitCode::usage, "does not know what to do with 'gpt2'");
}

}  // namespace
}  // namespace snug
