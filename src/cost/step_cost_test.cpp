#include "cost/step_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "ir/toy_ops.h"
#include "models/model.h"
#include "passes/passes.h"

namespace snug {
namespace {

Module compiled(const char* policy, int64_t accum) {
  return compile("tiny", Model::load("snug-tiny").forward({.batch = 1, .seq = 64}),
                 {.accum = accum, .recompute = parse_recompute(policy)});
}

TEST(StepCost, AnOpTakesAsLongAsTheSlowerOfArithmeticAndTrafficAndAPartOfTheOther) {
  const Module module = compiled("none", 1);
  DeviceSpec only_arithmetic = this_cpu(1), only_traffic = this_cpu(1);
  only_arithmetic.bytes_per_s = only_traffic.fp32_flops = 1e30;
  for (const Op& op : module.program("micro_first").ops) {
    const double both = CostModel(this_cpu(1), {}).seconds(module, op);
    const double arithmetic = CostModel(only_arithmetic, {}).seconds(module, op);
    const double traffic = CostModel(only_traffic, {}).seconds(module, op);
    EXPECT_GE(both, std::max(arithmetic, traffic)) << op.name;
    EXPECT_LE(both, std::max(arithmetic, traffic) + std::min(arithmetic, traffic) / 2) << op.name;
  }
}

TEST(StepCost, AStepCountsEveryMicroBatchAndItsRepeats) {
  const CostModel model = nominal_model(Backend::cpu);
  const auto cost = [&](const char* policy, int64_t accum) {
    return step_cost(compiled(policy, accum), model);
  };
  EXPECT_EQ(cost("none", 1).repeat_seconds, 0);
  const StepCost one = cost("full", 1);
  const StepCost four = cost("full", 4);
  EXPECT_GT(one.repeat_seconds, 0);
  EXPECT_NEAR(one.step_seconds - cost("none", 1).step_seconds, one.repeat_seconds,
              1e-6 * one.step_seconds);
  EXPECT_NEAR(four.repeat_seconds, 4 * one.repeat_seconds, 1e-9 * four.repeat_seconds);
  EXPECT_GT(four.step_seconds, 2 * one.step_seconds);
  EXPECT_LT(four.step_seconds, 4.5 * one.step_seconds) << "the update runs once";
}

// Two prefetches of 4 s beside three computations of 1, 2 and 3 s, the second of which needs the
// first prefetch, the third the second.
TEST(StepCost, LanesRunSideBySideAndWaitForEachOther) {
  toy::Fixture f;
  const ValueId w1 = f.unary_on("copy_in", "w1", f.x);
  const ValueId w2 = f.unary_on("copy_in", "w2", f.x);
  const ValueId a = f.unary_on("compute", "a", f.x);
  const ValueId c = f.b.emit(toy::add, "b", {a, w1})[0];
  f.b.emit(toy::add, "c", {c, w2});
  const Program& p = f.module.program("p");
  const auto seconds = [&](std::vector<double> each) {
    return seconds_on_lanes(f.module, p, each);
  };
  EXPECT_EQ(seconds({4, 4, 1, 2, 3}), 8 + 3) << "compute waits for the copies";
  EXPECT_EQ(seconds({1, 1, 5, 2, 3}), 5 + 2 + 3) << "the copies are hidden";
  EXPECT_EQ(seconds({1, 1, 1, 1, 20}), 22);
  EXPECT_EQ(seconds({1, 90, 1, 1, 0}), 91);
}

TEST(StepCost, OneLaneIsASumAndNoOpsAreNothing) {
  toy::Fixture f;
  const Program& p = f.module.program("p");
  EXPECT_EQ(seconds_on_lanes(f.module, p, {}), 0);
  f.unary_on("compute", "b", f.unary_on("compute", "a", f.x));
  EXPECT_EQ(seconds_on_lanes(f.module, p, std::vector<double>{1, 2}), 3);
}

// An order given by name holds across lanes too.
TEST(StepCost, AnOpWaitsForWhatItStandsAfter) {
  toy::Fixture f;
  f.unary_on("copy_out", "out", f.x);
  f.unary_on("compute", "a", f.x);
  f.b.last().after = {"out"};
  EXPECT_EQ(seconds_on_lanes(f.module, f.module.program("p"), std::vector<double>{7, 1}), 8);
}

}  // namespace
}  // namespace snug
