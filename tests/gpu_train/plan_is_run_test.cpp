// Plan = run on a GPU: the arena is the plan's number and is used to its end; dead values are dead;
// a program that is recorded and replayed computes what its ops do one by one.
#include <cmath>

#include "base/units.h"
#include "gpu_train/gpu_run.h"
#include "support/configurations.h"

namespace snug {
namespace {

constexpr int kPlannedSteps = 4;  // a program's first run, its recording and two replays

// Where the highest value ends that its op writes whole: a library need not use all of its scratch.
int64_t end_of_written(const Module& module) {
  int64_t end = 0;
  for (const Value& value : module.values) {
    if (value.offset && value.category != Category::workspace)
      end = std::max(end, *value.offset + value.storage_bytes());
  }
  return end;
}

class GpuPlanIsRun : public OnGpu, public ::testing::WithParamInterface<Configuration> {
 protected:
  static SmallRun run(const ExecutorOptions& options = kDeterministic) {
    return gpu_run(GetParam().model, as_on_gpu(GetParam().build), as_on_gpu(GetParam().recipe),
                   options);
  }
};

TEST_P(GpuPlanIsRun, PlannedEqualsAllocatedAndMeasured) {
  SmallRun run = this->run();
  for (const float loss : run.losses(kPlannedSteps)) EXPECT_TRUE(std::isfinite(loss));
  EXPECT_TRUE(std::isfinite(run.evaluate()));
  const Executor& executor = run.executor();
  EXPECT_EQ(executor.allocated_bytes(), executor.planned_bytes());
  EXPECT_LE(executor.measured_bytes(), executor.planned_bytes());
  EXPECT_GE(executor.measured_bytes(), end_of_written(run.module()));
}

TEST_P(GpuPlanIsRun, PoisonedDeadValuesChangeNothing) {
  SmallRun plain = run();
  SmallRun poisoned = run({.test = {.poison_dead = true}, .math = kDeterministic.math});
  for (int i = 0; i < kPlannedSteps; ++i) {
    const float want = plain.step();
    EXPECT_EQ(poisoned.step(), want) << "step " << i;
    EXPECT_EQ(poisoned.evaluate(), plain.evaluate()) << "evaluation after step " << i;
  }
}

TEST_P(GpuPlanIsRun, ReplaysMatchEagerOps) {
  SmallRun replaying = run();
  SmallRun eager = run();
  int64_t seen = 0;
  eager.executor().observe = [&](size_t, size_t) { ++seen; };
  for (int i = 0; i < kPlannedSteps; ++i) {
    const float want = eager.step();
    EXPECT_EQ(replaying.step(), want) << "step " << i;
    EXPECT_EQ(replaying.evaluate(), eager.evaluate()) << "evaluation after step " << i;
  }
  EXPECT_GT(seen, 0) << "every op was waited for";
}

INSTANTIATE_TEST_SUITE_P(Configurations, GpuPlanIsRun, ::testing::ValuesIn(configurations()),
                         [](const auto& p) { return std::string(p.param.name); });

using GpuMemoryTruth = OnGpu;

TEST_F(GpuMemoryTruth, OversizedArenaIsRefusedWithNumbers) {
  const int64_t bytes = gpu().memory().total + (int64_t{1} << 30);
  try {
    gpu().allocate(bytes);
    FAIL() << "allocated";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::does_not_fit);
    EXPECT_NE(std::string(error.what()).find(format_exact(bytes)), std::string::npos)
        << error.what();
    EXPECT_NE(std::string(error.what()).find(format_bytes(gpu().memory().total)), std::string::npos)
        << error.what();
  }
  EXPECT_TRUE(gpu().allocate(1 << 20)->bytes() == 1 << 20) << "and the device still works";
}

}  // namespace
}  // namespace snug
