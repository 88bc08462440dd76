#include "settings/lr_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "settings/parse.h"

namespace snug {
namespace {

using Kind = LrSchedule::Kind;

LrSchedule schedule(Kind kind, int64_t warmup = 10) {
  return {.kind = kind, .peak = 2, .min_ratio = 0.25, .warmup_steps = warmup, .total_steps = 110};
}

TEST(Schedule, WarmsUpLinearlyFromTheFirstStep) {
  for (const Kind kind : {Kind::constant, Kind::cosine, Kind::linear, Kind::wsd}) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 0), 0.2);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 4), 1.0);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 9), 2.0);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 10), 2.0);
  }
}

TEST(Schedule, StartsAtThePeakWithoutWarmUp) {
  for (const Kind kind : {Kind::constant, Kind::cosine, Kind::linear, Kind::wsd}) {
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind, 0), 0), 2.0);
  }
}

TEST(Schedule, DecaysToItsMinimum) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Kind::constant), 1000), 2.0);
  for (const Kind kind : {Kind::cosine, Kind::linear, Kind::wsd}) {
    EXPECT_GT(learning_rate(schedule(kind), 109), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 110), 0.5);
    EXPECT_DOUBLE_EQ(learning_rate(schedule(kind), 1000), 0.5);
  }
}

TEST(Schedule, HasExpectedValues) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Kind::cosine), 60), 1.25);
  EXPECT_NEAR(learning_rate(schedule(Kind::cosine), 35), 0.5 + 1.5 * 0.8535533905932737, 1e-15);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Kind::linear), 60), 1.25);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Kind::linear), 35), 1.625);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Kind::wsd), 88), 2.0);  // the last fifth begins here
  EXPECT_DOUBLE_EQ(learning_rate(schedule(Kind::wsd), 99), 0.5 + 1.5 * (1 - std::sqrt(0.5)));
}

TEST(Schedule, RunsShorterThanWarmUpWork) {
  LrSchedule s = schedule(Kind::cosine, 10);
  s.total_steps = 5;
  EXPECT_DOUBLE_EQ(learning_rate(s, 4), 1.0);
  EXPECT_DOUBLE_EQ(learning_rate(s, 10), 2.0 * 0.25 + 1.5);  // no way left to go down
}

TEST(Schedule, NamesParseBack) {
  for (const std::string& name : words_of<LrSchedule::Kind>())
    EXPECT_EQ(print_setting(parse_setting<LrSchedule::Kind>(name, "lr-schedule")), name);
  EXPECT_THROW(parse_setting<LrSchedule::Kind>("cosin", "lr-schedule"), Error);
}

TEST(Schedule, RefusesInvalidNumbers) {
  const auto refused = [](LrSchedule s) { EXPECT_THROW(check(s), Error); };
  EXPECT_NO_THROW(check(schedule(Kind::cosine)));
  refused({.peak = -1});
  refused({.peak = std::numeric_limits<double>::quiet_NaN()});
  refused({.min_ratio = 1.5});
  refused({.warmup_steps = -1});
  refused({.total_steps = -1});
  refused({.decay_fraction = -0.1});
}

}  // namespace
}  // namespace snug
