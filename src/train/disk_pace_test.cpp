#include "train/disk_pace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snug {
namespace {

using ::testing::StartsWith;

TEST(DiskPace, IsReportedOnlyWhenFarTooSlow) {
  const DiskRates planned{.read = 2e9, .write = 1e9};
  const DiskTraffic good_reads{.transfers = 10, .bytes = 10'000'000'000, .seconds = 14};
  const DiskTraffic good_writes{.transfers = 10, .bytes = 10'000'000'000, .seconds = 29};
  EXPECT_EQ(slow_disk_note(good_reads, good_writes, planned), "");
  DiskTraffic slow = good_reads;
  slow.seconds = 20;
  EXPECT_THAT(slow_disk_note(slow, good_writes, planned),
              StartsWith("the disk reads 0.50 GB/s, and 2.00 were planned: steps take longer"));
  slow.seconds = 40;
  EXPECT_THAT(slow_disk_note(good_reads, slow, planned),
              StartsWith("the disk writes 0.25 GB/s, and 1.00 were planned"));
}

// Many small transfers take their latency, and too little says nothing.
TEST(DiskPace, CountsTransfersOverASecond) {
  const DiskRates planned{.read = 2e9, .write = 2e9};
  const DiskTraffic small{.transfers = 100'000, .bytes = 1'000'000, .seconds = 20};
  EXPECT_EQ(slow_disk_note(small, {}, planned), "");
  EXPECT_EQ(slow_disk_note({.transfers = 1, .bytes = 1'000'000, .seconds = 0.9}, {}, planned), "");
  EXPECT_NE(slow_disk_note({.transfers = 1, .bytes = 1'000'000, .seconds = 1.1}, {}, planned), "");
}

}  // namespace
}  // namespace snug
