#include "report/train_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snug {
namespace {

TEST(TrainReport, StatusLineShowsProgressSpeedAndMemory) {
  StepReport report{.step = 25, .steps = 100, .loss = 3.25, .tokens_per_s = 12'300};
  report.hours_left = 0.5;
  report.allocated_bytes = int64_t{3} << 30;
  report.context_bytes = int64_t{1} << 29;
  EXPECT_EQ(
      status_line(report),
      "█████░░░░░░░░░░░░░░░  25%  step 25/100  30 m 00 s left  loss 3.2500  12.30 k tok/s  3.50 "
      "GiB");
  report.budget_bytes = int64_t{8} << 30;
  EXPECT_THAT(status_line(report), ::testing::EndsWith("  3.50 GiB of 8.00 GiB"));
}

}  // namespace
}  // namespace snug
