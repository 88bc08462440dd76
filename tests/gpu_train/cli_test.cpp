// snug train --device cuda as typed: it learns what the CPU learns, what it saves the CPU reads,
// and what cannot go well is said as on the CPU.
#include <cmath>
#include <limits>

#include "comm/nccl.h"
#include "e2e/cli_fixture.h"
#include "e2e/damage.h"
#include "gpu_train/gpu_run.h"

namespace snug {
namespace {

const std::string kTrain =
    "train tiny --data text.txt --seq 16 --batch 4 --lr 3e-4 --precision fp32 --device ";
constexpr double kCliTolerance = 1e-4;

class GpuCli : public Cli {
 protected:
  void SetUp() override { SNUG_NEEDS_CUDA; }

  static void expect_near(const std::vector<double>& got, const std::vector<double>& want) {
    ASSERT_EQ(got.size(), want.size());
    for (size_t i = 0; i < want.size(); ++i)
      EXPECT_NEAR(got[i], want[i], kCliTolerance * want[i]) << "number " << i;
  }
};

TEST_F(GpuCli, MatchesCpuLosses) {
  for (const std::string how : {"", " --accum 3 --dropout 0.1", " --update-in-backward --clip 0",
                                " --recompute full --loss whole --optimizer adam-mini",
                                " --optimizer adamw8bit --attention standard"}) {
    SCOPED_TRACE(how);
    expect_near(losses(kTrain + "cuda --steps 12" + how), losses(kTrain + "cpu --steps 12" + how));
  }
}

TEST_F(GpuCli, DeterministicRunsHaveTheSameBits) {
  const std::string train = kTrain + "cuda --steps 12 --deterministic --precision bf16 --accum 2";
  const std::vector<double> want = losses(train);
  EXPECT_EQ(losses(train), want);
  EXPECT_EQ(losses(train + " --recompute full"), want);
}

// A message waits on the device for what this rank has yet to compute: no kernel may be loaded then.
TEST_F(GpuCli, StagesMatchOneDevice) {
  if (const std::string why = why_no_nccl(); !why.empty()) GTEST_SKIP() << why;
  const std::string train = kTrain + "cuda --steps 4 --deterministic --offload none --accum 5";
  expect_near(losses(train + " --pp 2 --ranks 2 --share-gpu"), losses(train));
}

TEST_F(GpuCli, StepsAreReportedInOrderWithTheirBytes) {
  const Ended run = snug(kTrain + "cuda --steps 6 --holdout 0.1 --eval-every 2 --json");
  ASSERT_EQ(run.code, 0) << run.err;
  int64_t step = 0;
  for (const nlohmann::json& line : lines_of(run)) {
    if (!line.contains("loss")) continue;
    EXPECT_EQ(line["step"], ++step);
    EXPECT_GT(line["planned_bytes"], 0);
    EXPECT_LE(line["peak_bytes"], line["planned_bytes"]);
  }
  EXPECT_EQ(step, 6);
  EXPECT_EQ(eval_losses(run).size(), 4U) << "before the first step and after every second";
}

TEST_F(GpuCli, SavedModelLoadsOnCpu) {
  const std::string held_out = " --seq 16 --batch 2 --eval-data text.txt --eval-batches 2 --json";
  const Ended first = snug(
      "train tiny --data text.txt --device cuda --precision fp32 --steps 8 --out o" + held_out);
  ASSERT_EQ(first.code, 0) << first.err;
  const Ended second = snug("train o --data text.txt --device cpu --steps 1" + held_out);
  ASSERT_EQ(second.code, 0) << second.err;
  const double want = eval_losses(first).back();
  EXPECT_NEAR(eval_losses(second).front(), want, kCliTolerance * want);
}

TEST_F(GpuCli, EvaluatesAndSamplesAsTheCpuDoes) {
  ASSERT_EQ(snug(kTrain + "cpu --steps 60 --lr 2e-2 --out learnt").code, 0);
  const auto ask = [&](const std::string& line) {
    const Ended run = snug(line + " --json");
    EXPECT_EQ(run.code, 0) << run.err;
    return run.code == 0 ? nlohmann::json::parse(run.out) : nlohmann::json::object();
  };
  const std::string eval = "eval learnt --data text.txt --seq 16 --precision fp32 --device ";
  const double loss = ask(eval + "cpu")["loss"];
  EXPECT_NEAR(ask(eval + "cuda")["loss"], loss, kCliTolerance * loss);
  EXPECT_NEAR(ask(eval + "cuda --offload params")["loss"], loss, kCliTolerance * loss);

  const std::string sample =
      "sample learnt --prompt the --temperature 0 --max-tokens 16 --precision fp32 --device ";
  const nlohmann::json text = ask(sample + "cpu")["text"];
  const nlohmann::json on_gpu = ask(sample + "cuda");
  EXPECT_EQ(on_gpu["text"], text);
  EXPECT_LE(on_gpu["peak_bytes"], on_gpu["planned_bytes"]);
  EXPECT_EQ(ask(sample + "cuda --offload params")["text"], text);
}

TEST_F(GpuCli, NanLossIsTracedToItsLayer) {
  ASSERT_EQ(snug(kTrain + "cuda --steps 1 --out bad").code, 0);
  const std::string weights = "bad/model.safetensors";
  damage(dir_ / weights, "model.layers.1.post_attention_layernorm.weight",
         std::numeric_limits<float>::max());
  for (const std::string how : {"", " --precision bf16", " --recompute full --accum 2"}) {
    SCOPED_TRACE(how);
    const Ended run = snug(
        "train bad --data text.txt --seq 16 --steps 3 --device cuda --out o --overwrite" + how);
    EXPECT_EQ(run.code, static_cast<int>(ExitCode::device));
    EXPECT_THAT(run.err, ::testing::ContainsRegex("the loss is nan at step 1; it first appears in "
                                                  "layer 1, [a-z_]+ 'layers.1.mlp.norm' in "
                                                  "micro_first"));
    EXPECT_EQ(read_file(dir_ / "o/model.safetensors"), read_file(dir_ / weights))
        << "the state from before";
  }
}

TEST_F(GpuCli, OversizedArenaIsRefusedBeforeTheRun) {
  const std::string train = "train tiny --device cuda --batch 100000000 --accum 1 --out o";
  const Ended run = snug(train);
  EXPECT_EQ(run.code, static_cast<int>(ExitCode::does_not_fit)) << run.err;
  EXPECT_THAT(run.err,
              ::testing::ContainsRegex("needs at least [0-9.]+ [GTP]iB \\([0-9,]+ bytes\\) "
                                       "and the budget is [0-9.]+ GiB"));
  const Ended beyond = snug(train + " --budget 1000000000GiB");
  EXPECT_EQ(beyond.code, static_cast<int>(ExitCode::does_not_fit)) << beyond.err;
  EXPECT_THAT(beyond.err,
              ::testing::ContainsRegex("snug: an arena of [0-9.]+ [GTP]iB \\([0-9,]+ bytes\\) does "
                                       "not fit: .* has [0-9.]+ GiB free"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "o"));
}

TEST_F(GpuCli, BudgetIsFreeMemoryOfGpu) {
  const Ended run = snug("train tiny --data text.txt --seq 16 --batch 4 --steps 1");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(run.err, ::testing::HasSubstr(" on NVIDIA"));
  EXPECT_THAT(run.err, ::testing::HasSubstr("precision bf16"));
  EXPECT_THAT(run.err, ::testing::ContainsRegex("budget [0-9.]+ GiB, free on this GPU"));
}

}  // namespace
}  // namespace snug
