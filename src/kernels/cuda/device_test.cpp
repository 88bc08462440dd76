#include "kernels/cuda/device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "hal/testing/needs_cuda.h"
#include "kernels/cuda/device_cards.h"
#include "kernels/cuda/shared_memory.h"

namespace snug::ops {
namespace {

using ::testing::HasSubstr;

DeviceFacts h200() {
  return {.name = "NVIDIA H200",
          .multiprocessors = 132,
          .shared_of_block = 227 * 1024,
          .early_launches = true};
}

}  // namespace

TEST(AsCard, HasFeaturesOfCard) {
  const DeviceFacts facts = as_card(h200(), "rtx4090");
  EXPECT_EQ(facts.name, "NVIDIA H200 as rtx4090");  // algorithms timed under it have a file apart
  EXPECT_EQ(facts.multiprocessors, 128);
  EXPECT_EQ(facts.shared_of_block, 99 * 1024);
  EXPECT_FALSE(facts.early_launches);
}

TEST(AsCard, HasNoFeatureBeyondDevice) {
  const DeviceFacts facts = as_card(h200(), "rtx5090");
  EXPECT_EQ(facts.multiprocessors, 132);
  EXPECT_TRUE(facts.early_launches);
  DeviceFacts old = h200();
  old.early_launches = false;
  EXPECT_FALSE(as_card(old, "b200").early_launches);
}

TEST(AsCard, ListsKnownCards) {
  try {
    as_card(h200(), "rtx");
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_THAT(error.what(), HasSubstr("SNUG_GPU_AS=rtx"));
    EXPECT_THAT(error.hint(), HasSubstr("a100, rtx3090, rtx4090, h100, b200, rtx5090"));
  }
}

// What a kernel that forgets to ask runs into, on a small card and on a large one that plays it.
TEST(RequireShared, RefusesSameSizesAsCard) {
  const DeviceFacts small = as_card(h200(), "rtx4090");
  EXPECT_NO_THROW(require_shared(h200(), 1024, 200 * 1024));
  EXPECT_NO_THROW(require_shared(small, 1024, 98 * 1024));
  try {
    require_shared(small, 1024, 98 * 1024 + 16);
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    EXPECT_THAT(error.what(), HasSubstr("101392 bytes"));
    EXPECT_THAT(error.what(), HasSubstr("rtx4090 grants 101376"));
  }
}

TEST(CudaDeviceFacts, MatchAmpereAndLater) {
  SNUG_NEEDS_CUDA;
  const DeviceFacts& facts = device_facts();
  EXPECT_GT(facts.multiprocessors, 0);
  EXPECT_GE(facts.shared_of_block, 99 * 1024);
}

}  // namespace snug::ops
