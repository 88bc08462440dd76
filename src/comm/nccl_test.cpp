// NCCL between processes that share one GPU: this program starts itself once for each rank.
#include "comm/nccl.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "hal/testing/needs_cuda.h"

namespace snug {
namespace {

TEST(Nccl, ReportsWhyItIsUnusable) {
  if (const std::string why = why_no_cuda(); !why.empty()) {
    EXPECT_EQ(why_no_nccl(), why);
  }
}

}  // namespace
}  // namespace snug
