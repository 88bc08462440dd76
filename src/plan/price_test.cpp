#include "plan/price.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/model.h"
#include "passes/passes.h"

namespace snug {
namespace {

Module compiled(const char* policy, int64_t accum) {
  return compile("tiny", Model::load("snug-tiny").forward({.batch = 1, .seq = 64}),
                 {.accum = accum, .recompute = parse_recompute(policy)});
}

TEST(Price, AnOpTakesAsLongAsTheSlowerOfArithmeticAndTraffic) {
  const Module module = compiled("none", 1);
  DeviceSpec only_arithmetic = this_cpu(1), only_traffic = this_cpu(1);
  only_arithmetic.bytes_per_s = only_traffic.fp32_flops = 1e30;
  for (const Op& op : module.program("micro_first").ops) {
    const double both = CostModel(this_cpu(1), {}).seconds(module, op);
    EXPECT_EQ(both, std::max(CostModel(only_arithmetic, {}).seconds(module, op),
                             CostModel(only_traffic, {}).seconds(module, op)))
        << op.name;
  }
}

TEST(Price, AStepCountsEveryMicroBatchAndItsRepeats) {
  const CostModel model = nominal_model(Backend::cpu);
  const auto price = [&](const char* policy, int64_t accum) {
    return price_of(compiled(policy, accum), model);
  };
  EXPECT_EQ(price("none", 1).repeat_seconds, 0);
  const Price one = price("full", 1);
  const Price four = price("full", 4);
  EXPECT_GT(one.repeat_seconds, 0);
  EXPECT_NEAR(one.step_seconds - price("none", 1).step_seconds, one.repeat_seconds,
              1e-6 * one.step_seconds);
  EXPECT_NEAR(four.repeat_seconds, 4 * one.repeat_seconds, 1e-9 * four.repeat_seconds);
  EXPECT_GT(four.step_seconds, 2 * one.step_seconds);
  EXPECT_LT(four.step_seconds, 4.5 * one.step_seconds) << "the update runs once";
}

}  // namespace
}  // namespace snug
