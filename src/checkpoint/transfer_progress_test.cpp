#include "checkpoint/transfer_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snug {
namespace {

TEST(TransferProgress, ReportsProgressOfLongTransfers) {
  std::vector<std::string> said;
  double now = 100;
  TransferProgress progress(
      "saving", 4 << 20, [&](const std::string& text) { said.push_back(text); },
      [&] { return now; });
  progress.add(1 << 20);
  EXPECT_THAT(said, ::testing::ElementsAre("saving"));
  now += 0.25;
  progress.add(1 << 20);
  progress.add(1 << 20);
  ASSERT_EQ(said.size(), 2U) << "not with every piece";
  EXPECT_EQ(said[1], "saving: 2.00 MiB of 4.00 MiB, 8.00 MiB/s");
  EXPECT_EQ(progress.summary(), "") << "it took no second";
  now += 1.75;
  EXPECT_EQ(progress.summary(), "3.00 MiB in 2.0 s");
}

TEST(TransferProgress, ReportsRate) {
  EXPECT_EQ(transfer_text(3 << 20, 6 << 20, 1.5), "3.00 MiB of 6.00 MiB, 2.00 MiB/s");
  EXPECT_EQ(transfer_text(0, 6 << 20, 0), "0 B of 6.00 MiB, 0 B/s");
}

}  // namespace
}  // namespace snug
