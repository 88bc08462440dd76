#include "train/open_device.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

TEST(OpenDevice, RefusesBf16WhereTheGpuHasNone) {
  try {
    require_precision(Dtype::bf16, 75, "Tesla T4");
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::device);
    EXPECT_STREQ(error.what(), "Tesla T4 has compute capability 7.5: bf16 needs 8.0");
    EXPECT_EQ(error.hint(), "--precision fp16 or fp32");
  }
  EXPECT_NO_THROW(require_precision(Dtype::f16, 75, "Tesla T4"));
  EXPECT_NO_THROW(require_precision(Dtype::bf16, 80, "A100"));
}

}  // namespace
}  // namespace snug
