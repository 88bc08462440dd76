// snug inspect and snug doctor --oom as typed, over snapshots that PyTorch wrote: owners of bytes
// are compared with the addresses that PyTorch gave.
#include <map>

#include "cli_fixture.h"

namespace snug {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

const std::filesystem::path kSnapshots =
    std::filesystem::path(SNUG_TEST_DIR).parent_path() / "snapshots";

class CliInspect : public Cli {
 protected:
  static std::string path(const std::string& name) { return (kSnapshots / name).string(); }
  static nlohmann::json pytorch_counts(const std::string& name) {
    return nlohmann::json::parse(read_file(kSnapshots / (name + ".json")));
  }
  // Of its one device.
  nlohmann::json inspected(const std::string& name) {
    const Ended run = snug("inspect " + path(name + ".pickle") + " --json --blocks");
    EXPECT_EQ(run.code, 0) << run.err;
    return nlohmann::json::parse(run.out)["devices"].at(0);
  }
  // Of the bytes that PyTorch says are the owner's, and of those that snug says are: the part on
  // which both agree.
  static std::pair<double, double> agreement(const nlohmann::json& device, const std::string& owner,
                                             const nlohmann::json& addresses) {
    std::map<int64_t, int64_t> wanted;
    for (const auto& pair : addresses) wanted[pair[0]] = pair[1];
    double agreed = 0, claimed = 0, all = 0;
    for (const auto& block : device["blocks"]) {
      if (!block["at_end"]) continue;
      const bool is_wanted = wanted.contains(block["address"]);
      const bool is_claimed = block["owner"] == owner;
      const double bytes = block["bytes"];
      all += is_wanted ? bytes : 0;
      claimed += is_claimed ? bytes : 0;
      agreed += is_wanted && is_claimed ? bytes : 0;
    }
    return {all == 0 ? 1 : agreed / all, claimed == 0 ? 1 : agreed / claimed};
  }
};

TEST_F(CliInspect, OwnersMatchPyTorch) {
  for (const std::string name : {"gpt2", "cpp", "bare", "leak", "oom"}) {
    SCOPED_TRACE(name);
    const nlohmann::json device = inspected(name), true_ones = pytorch_counts(name);
    EXPECT_GE(device["peak"]["known"], 0.95);
    const double peak = device["peak"]["allocated_bytes"];
    EXPECT_NEAR(peak / true_ones["max_allocated"].get<double>(), 1, 0.01);
    const double least = name == "bare" ? 0.9 : 0.999;  // no frames: guessed
    for (const auto& [owner, key] : {std::pair{"parameters", "parameters"},
                                     {"gradients", "gradients"},
                                     {"optimizer", "state"}}) {
      const auto [recall, precision] = agreement(device, owner, true_ones[key]);
      EXPECT_GE(recall, least) << owner;
      EXPECT_GE(precision, least) << owner;
    }
  }
}

TEST_F(CliInspect, RemediesMatchPyTorch) {
  const nlohmann::json device = inspected("gpt2"), measured = pytorch_counts("gpt2")["remedies"];
  std::map<std::string, double> peak;
  for (const auto& remedy : device["remedies"]) peak[remedy["name"]] = remedy["peak_bytes"];
  for (const auto& [name, key] : {std::pair{"checkpointing", "checkpointing"},
                                  {"chunked loss", "chunked"},
                                  {"half the batch", "half_batch"}}) {
    ASSERT_TRUE(peak.contains(name)) << name;
    EXPECT_NEAR(peak[name] / measured[key]["peak"].get<double>(), 1, 0.1) << name;
  }
}

TEST_F(CliInspect, LeakIsNamed) {
  const nlohmann::json device = inspected("leak");
  ASSERT_EQ(device["leaks"].size(), 1U);
  EXPECT_EQ(device["leaks"][0]["at"], "train.py:136 step");
  EXPECT_EQ(device["growth_bytes_per_step"], 256 << 10);
  EXPECT_THAT(snug("inspect " + path("leak.pickle")).out,
              HasSubstr("768.00 KiB in 3 blocks of 3 steps, made at train.py:136 step"));
  EXPECT_TRUE(inspected("gpt2")["leaks"].empty());
}

TEST_F(CliInspect, FailedAllocationIsExplained) {
  const nlohmann::json device = inspected("oom");
  const nlohmann::json& oom = device["oom"];
  EXPECT_EQ(oom["asked_bytes"], 48 << 20);
  EXPECT_EQ(oom["phase"], "forward");
  EXPECT_EQ(oom["at"], "loss_utils.py:40 fixed_cross_entropy");
  EXPECT_TRUE(oom["limited"]) << "the GPU had more than a hundred GiB left";
  const double allocated = pytorch_counts("oom")["oom"]["allocated"];
  EXPECT_NEAR(oom["allocated_bytes"].get<double>() / allocated, 1, 0.02);
  EXPECT_THAT(snug("inspect " + path("oom.pickle")).out,
              HasSubstr("out of memory  48.00 MiB were asked for in forward"));
}

TEST_F(CliInspect, ModelAddsCostToChanges) {
  const Ended run = snug("inspect " + path("gpt2.pickle") + " --model " + path("config.json") +
                         " --batch 4 --seq 128 --precision fp32 --gpu h200");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("the nearest plan of Snug"));
  EXPECT_THAT(run.out, ContainsRegex("checkpointing +-27.53 MiB +-.*ms  --recompute full"));
  EXPECT_THAT(run.out, HasSubstr("--ranks 2 --zero 3"));
  for (const std::string& line : split(run.out, '\n')) EXPECT_LE(line.size(), 180U) << line;
}

TEST_F(CliInspect, Refusals) {
  expect_refused("inspect", kUsage, "snug inspect needs a snapshot");
  expect_refused("inspect missing.pickle", kBadInput, "cannot read missing.pickle");
  expect_refused("inspect text.txt", kBadInput, "text.txt");
  expect_refused("inspect tiny", kBadInput, "is a directory");
  write("evil.pickle", "cos\nsystem\n(S'touch evil'\ntR.");
  expect_refused("inspect evil.pickle", kBadInput, "holds GLOBAL at byte 0", "do not load");
  const std::string whole = read_file(kSnapshots / "gpt2.pickle");
  write("short.pickle", std::string_view(whole).substr(0, whole.size() / 2));
  expect_refused("inspect short.pickle", kBadInput, "is truncated");
  write("empty.pickle",
        "}(\x8c\x08segments]\x8c\x0d"
        "device_traces]u.");
  expect_refused("inspect empty.pickle", kBadInput, "nothing was allocated or recorded");
}

TEST_F(CliInspect, PyTorchLogIsExplained) {
  write("train.log", "step 1\n" + pytorch_counts("oom")["oom"]["traceback"].get<std::string>());
  const Ended run = snug("doctor --oom train.log");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("PyTorch's allocator found no room"));
  EXPECT_THAT(run.out, HasSubstr("in forward, at loss_utils.py:40 fixed_cross_entropy"));
  EXPECT_THAT(run.out, HasSubstr("It asked for 48.00 MiB and 30.31 MiB were left"));
  EXPECT_THAT(run.out, HasSubstr("The process may use 286.31 MiB of it"));
  EXPECT_THAT(run.out, HasSubstr("Compute logits and loss in parts"));
  for (const std::string& line : split(run.out, '\n')) EXPECT_LE(line.size(), 100U) << line;
}

TEST_F(CliInspect, LogWithModelHasFittingPlan) {
  write("train.log",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total "
        "capacity of 7.79 GiB of which 1.18 GiB is free.\n");
  const Ended run = snug("doctor --oom train.log --model gpt2 --batch 16 --recompute none --json");
  EXPECT_EQ(run.code, 0) << run.err;
  const nlohmann::json report = nlohmann::json::parse(run.out);
  EXPECT_EQ(report["kind"], "pytorch");
  EXPECT_EQ(report["total_bytes"], static_cast<int64_t>(7.79 * (1 << 30)));
  EXPECT_EQ(report["plan"]["budget_bytes"], report["total_bytes"]);
}

TEST_F(CliInspect, LogsAreRefusedWithASentence) {
  expect_refused("doctor --oom text.txt", kBadInput, "holds no out-of-memory error");
  expect_refused("doctor --oom none.log", kBadInput, "cannot read none.log");
  expect_refused("doctor --model gpt2", kUsage, "--model goes with --oom LOG");
}

}  // namespace
}  // namespace snug
