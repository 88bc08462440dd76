#include "base/units.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

TEST(Units, OneIsOneAndTheRestArePlural) {
  EXPECT_EQ(counted(1, "window"), "1 window");
  EXPECT_EQ(counted(0, "window"), "0 windows");
  EXPECT_EQ(counted(1024, "window"), "1,024 windows");
  EXPECT_EQ(counted(1, "micro-batch"), "1 micro-batch");
  EXPECT_EQ(counted(2, "micro-batch"), "2 micro-batches");
}

TEST(Units, RateIsNeverRoundedToZero) {
  EXPECT_EQ(format_rate(13803.6), "13,804");
  EXPECT_EQ(format_rate(99.6), "100");
  EXPECT_EQ(format_rate(99.4), "99");
  EXPECT_EQ(format_rate(9.44), "9.4");
  EXPECT_EQ(format_rate(0.0421), "0.042");
}

TEST(Units, BytesAreReadWithTheirUnit) {
  EXPECT_EQ(parse_bytes("24GiB"), 24LL << 30);
  EXPECT_EQ(parse_bytes("80 GB"), 80'000'000'000);
  EXPECT_EQ(parse_bytes("512"), 512);
}

}  // namespace
}  // namespace snug
