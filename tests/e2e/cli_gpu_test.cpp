// snug --device cuda as typed, with GPUs hidden or absent: plans need none, training says in one
// sentence what is missing.
#include "base/testing.h"
#include "cli_fixture.h"

namespace snug {
namespace {

// No GPU for this process's children, whatever the machine has.
struct HiddenGpus : testing::Environment {
  HiddenGpus() : Environment("CUDA_VISIBLE_DEVICES", "-1") {}
};

using CliGpu = Cli;

TEST_F(CliGpu, TrainingWithoutGpuIsExplained) {
  const HiddenGpus hidden;
  expect_refused("train snug-tiny --device cuda --steps 1 --out o", ExitCode::device, "",
                 "snug doctor");
  expect_refused("train tiny --device cuda --data text.txt --seq 16 --out o --json",
                 ExitCode::device, "", "snug doctor");
}

TEST_F(CliGpu, PlanDoesNotDependOnGpu) {
  const std::string plan = "plan qwen2.5-0.5b --gpu h200 --batch 4 --master none";
  for (const char* more : {" --json", " --json --budget 24GiB", ""}) {
    SCOPED_TRACE(more);
    const Ended here = snug(plan + more);
    const HiddenGpus hidden;
    const Ended without = snug(plan + more);
    EXPECT_EQ(here.code, 0) << here.err;
    EXPECT_EQ(without.code, 0) << without.err;
    EXPECT_EQ(here.out, without.out);
  }
}

TEST_F(CliGpu, MissingGpuFallsBackToCpuWithNotice) {
  const HiddenGpus hidden;
  const auto first_line = [](const std::string& text) { return text.substr(0, text.find('\n')); };
  const Ended plan = snug("plan snug-tiny --seq 64 --batch 2");
  EXPECT_EQ(plan.code, 0) << plan.err;
  EXPECT_THAT(first_line(plan.out), ::testing::HasSubstr("snug-tiny on cpu · "));
  EXPECT_THAT(plan.out, ::testing::HasSubstr("\nprecision fp32 · "));
  EXPECT_EQ(plan.out, snug("plan snug-tiny --seq 64 --batch 2 --device cpu --precision fp32").out);
  const Ended gpu = snug("plan snug-tiny --seq 64 --batch 2 --gpu rtx4090");
  EXPECT_THAT(first_line(gpu.out), ::testing::HasSubstr("snug-tiny on rtx4090 · "));
  EXPECT_THAT(gpu.out, ::testing::HasSubstr("\nprecision bf16 · "));
  const Ended run = snug("train tiny --data text.txt --seq 16 --batch 2 --steps 1");
  EXPECT_EQ(run.code, 0) << run.err;
  EXPECT_THAT(first_line(run.err), ::testing::HasSubstr(" on cpu · "));
}

TEST_F(CliGpu, GpuBudgetIncludesLibraries) {
  const Ended run = snug("plan snug-tiny --seq 64 --budget 2GiB --json --device cuda");
  EXPECT_EQ(run.code, 0) << run.err;
  const nlohmann::json plan = nlohmann::json::parse(run.out);
  EXPECT_EQ(plan["budget_bytes"], int64_t{2} << 30);
  EXPECT_GT(plan["context_bytes"], 0);
}

TEST_F(CliGpu, BudgetsBelowContext) {
  for (const char* verb : {"plan", "train"}) {
    expect_refused(fmt::format("{} qwen2.5-0.5b --device cuda --budget 100MiB", verb),
                   ExitCode::does_not_fit, "--budget 100MiB leaves nothing");
  }
}

TEST_F(CliGpu, UnknownDeviceNames) {
  for (const char* word : {"gpu", "cuda:0", "CUDA", "rocm"}) {
    expect_refused(fmt::format("plan tiny --device {}", word), ExitCode::usage,
                   fmt::format("--device '{}' is not one of auto, cpu, cuda", word));
  }
  expect_refused("train tiny --device cudda", ExitCode::usage, "did you mean 'cuda'?");
}

}  // namespace
}  // namespace snug
