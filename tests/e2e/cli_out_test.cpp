// --out: one run at a time, and what cannot be saved is refused before the first step.
#include "cli_fixture.h"

namespace snug {
namespace {

class CliOut : public Cli {
 protected:
  const std::string train_ = "train tiny --seq 16 --batch 2 --data text.txt --out ";
};

TEST_F(CliOut, SecondRunIsRefusedDuringFirst) {
  Ended second;
  const auto start_another = [&](pid_t) { second = snug(train_ + "o --steps 1"); };
  const Ended first = snug(train_ + "o --steps 100000 --json",
                           {.interrupt_after = "\"step\":2,", .before_interrupt = start_another});
  EXPECT_EQ(first.code, 0) << first.err;
  EXPECT_EQ(second.code, static_cast<int>(ExitCode::usage));
  EXPECT_THAT(second.err, ::testing::ContainsRegex("--out o: another training .process [0-9]+. "));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "o/model.safetensors"));
  EXPECT_EQ(snug(train_ + "o --steps 1 --overwrite").code, 0) << "the lock went with the process";
  for (const std::string& path : tree()) EXPECT_EQ(path.find("o/."), std::string::npos) << path;
}

TEST_F(CliOut, InvalidDirectories) {
  std::filesystem::create_symlink("nowhere", dir_ / "dangling");
  std::filesystem::create_symlink("loop", dir_ / "loop");
  expect_refused(train_ + "dangling", ExitCode::usage, "dangling is a link to nothing");
  expect_refused(train_ + "loop", ExitCode::usage, "Too many levels of symbolic links");
  expect_refused(train_ + std::string(300, 'n'), ExitCode::usage, "File name too long");
}

// 1.5 TB of weights: the null device follows the plan without holding them.
TEST_F(CliOut, FullDisk) {
  expect_refused("train llama-405b --device null --seq 16 --batch 1 --out o", ExitCode::bad_input,
                 "--out o: model and checkpoints take 5.91 TiB, and its file system has");
}

TEST_F(CliOut, SettledChoicesAreWrittenUnpinned) {
  EXPECT_EQ(snug(train_ + "o --steps 1 --budget 1GiB").code, 0);
  const std::string saved = read_file(dir_ / "o/run.toml");
  EXPECT_THAT(saved, ::testing::HasSubstr("attention = \"auto\"\n"));
  const std::string settled = saved.substr(saved.find("[settled]"));
  EXPECT_THAT(settled, ::testing::HasSubstr("attention = \"flash\"\n"));
  EXPECT_THAT(settled, ::testing::HasSubstr("accum = 1\n"));
  EXPECT_EQ(snug("train --config o/run.toml --attention standard --overwrite").code, 0);
}

TEST_F(CliOut, SettledPolicyIsPlannedPolicy) {
  const std::string run = " tiny --seq 16 --batch 2 --accum 1 --attention flash --loss chunked:8";
  const auto bytes = [&](const std::string& more) {
    return nlohmann::json::parse(snug("plan" + run + more + " --json").out).at("arena_bytes");
  };
  const std::string budget = fmt::format(" --budget {}", bytes("").get<int64_t>() - 1);
  ASSERT_EQ(snug("train" + run + budget + " --data text.txt --steps 1 --out o").code, 0);
  const std::string saved = read_file(dir_ / "o/run.toml");
  const std::string key = "recompute = \"";
  EXPECT_THAT(saved, ::testing::HasSubstr(key + "auto\"\n")) << "as it was asked";
  const size_t at = saved.find(key, saved.find("[settled]")) + key.size();
  const std::string policy = saved.substr(at, saved.find('"', at) - at);
  EXPECT_THAT(policy, ::testing::StartsWith("layers:"));
  EXPECT_EQ(bytes(" --recompute " + policy), bytes(budget));
}

}  // namespace
}  // namespace snug
