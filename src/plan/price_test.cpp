#include "plan/price.h"

#include <gtest/gtest.h>

#include <limits>

#include "models/model.h"
#include "passes/passes.h"

namespace snug {
namespace {

Module compiled(const char* policy, int64_t accum) {
  return compile("tiny", Model::load("snug-tiny").forward({.batch = 1, .seq = 64}),
                 {.accum = accum, .recompute = parse_recompute(policy)});
}

TEST(Price, AnOpTakesAsLongAsTheSlowerOfArithmeticAndTraffic) {
  constexpr double kEndless = std::numeric_limits<double>::infinity();
  const Module module = compiled("none", 1);
  for (const Op& op : module.program("micro_first").ops) {
    const Cost cost = cost_of(module, op, Backend::cpu);
    const auto flops = static_cast<double>(cost.flops);
    const auto bytes = static_cast<double>(cost.bytes_read + cost.bytes_written);
    EXPECT_EQ(seconds_of(module, op, Backend::cpu, {1, kEndless}), flops) << op.name;
    EXPECT_EQ(seconds_of(module, op, Backend::cpu, {kEndless, 1}), bytes) << op.name;
  }
}

TEST(Price, AStepCountsEveryMicroBatchAndItsRepeats) {
  const Rates rates = nominal_rates(Backend::cpu);
  const auto price = [&](const char* policy, int64_t accum) {
    return price_of(compiled(policy, accum), Backend::cpu, rates);
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
