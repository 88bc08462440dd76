// Plan = run: planned arena, allocated arena and the measured high-water mark are the same number;
// overwriting every dead value with NaN changes nothing; the process grows by the arena and by
// nothing else.
#include <gtest/gtest.h>

#include <cmath>

#include "base/units.h"
#include "runtime/null_executor.h"
#include "support/configurations.h"
#include "support/small_run.h"

namespace snug {
namespace {

// Which value ends where the arena ends: the one whose kernel left bytes unwritten when the mark is
// too low.
std::string top_value(const Module& module) {
  for (const Value& value : module.values) {
    if (value.offset && *value.offset + value.storage_bytes() == module.arena_bytes[0])
      return value.name + " " + value.type.text();
  }
  return "none";
}

class PlanIsRun : public ::testing::TestWithParam<Configuration> {};

TEST_P(PlanIsRun, PlannedEqualsAllocatedAndMeasured) {
  const Configuration& c = GetParam();
  SmallRun run(c.model, c.build, c.recipe);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(std::isfinite(run.step()));
  const int64_t planned = run.executor().planned_bytes();
  EXPECT_EQ(run.executor().allocated_bytes(), planned);
  EXPECT_EQ(run.executor().measured_bytes(), planned)
      << "the highest value is " << top_value(run.module());
  EXPECT_EQ(run_null(run.module()).high_water[0], planned);
}

TEST_P(PlanIsRun, PoisonedDeadValuesChangeNothing) {
  const Configuration& c = GetParam();
  SmallRun plain(c.model, c.build, c.recipe);
  SmallRun poisoned(c.model, c.build, c.recipe, {.test = {.poison_dead = true}});
  for (int i = 0; i < 3; ++i) {
    const float want = plain.step();
    EXPECT_EQ(poisoned.step(), want) << "step " << i;
    EXPECT_EQ(poisoned.evaluate(), plain.evaluate()) << "evaluation after step " << i;
  }
}

TEST_P(PlanIsRun, EvaluationLeavesTrainingAlone) {
  const Configuration& c = GetParam();
  SmallRun plain(c.model, c.build, c.recipe);
  SmallRun evaluating(c.model, c.build, c.recipe);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(plain.step(), evaluating.step());
    evaluating.evaluate();
  }
  EXPECT_EQ(evaluating.executor().measured_bytes(), evaluating.executor().planned_bytes());
}

INSTANTIATE_TEST_SUITE_P(Configurations, PlanIsRun, ::testing::ValuesIn(configurations()),
                         [](const auto& p) { return std::string(p.param.name); });

TEST(Memory, ProcessGrowsByArena) {
  SmallRun("snug-tiny", {.batch = 1, .seq = 64}).step();  // libraries warmed up
  const BuildOptions build{.batch = 16, .seq = 256};
  const int64_t before = resident_anonymous_bytes();
  SmallRun run("snug-tiny", build);
  run.step();
  const int64_t grown = resident_anonymous_bytes() - before;
  EXPECT_NEAR(static_cast<double>(grown), static_cast<double>(run.executor().planned_bytes()),
              64.0 * 1024 * 1024)
      << "the arena is " << format_bytes(run.executor().planned_bytes());
  EXPECT_GT(run.executor().planned_bytes(), 256 << 20) << "too small to tell";
}

TEST(Memory, SameSeedSameBits) {
  const std::string llama = tests_dir() + "/parity/llama";
  SmallRun a(llama, {.batch = 2, .seq = 16});
  SmallRun b(llama, {.batch = 2, .seq = 16});
  for (int i = 0; i < 5; ++i) EXPECT_EQ(a.step(), b.step());
}

}  // namespace
}  // namespace snug
