#include "ops/rotary/qk_norm.h"

#include <gtest/gtest.h>

#include "ops/testing/op_check.h"

namespace snug::ops {
namespace {

TEST(QkNorm, Checks) { check_op(qk_norm_def); }
TEST(QkNorm, ChecksInHalves) { check_op_in_halves(qk_norm_def); }

TEST(QkNorm, PartsTileTheColumnsBeforeV) {
  for (const bool per_head : {true, false}) {
    const QkNormParts parts{{.B = 1, .T = 1, .H = 6, .K = 2, .D = 5}, per_head};
    int64_t next = 0;
    for (int64_t g = 0; g < parts.count(); ++g) {
      EXPECT_EQ(parts.start(g), next);
      next += parts.width(g);
    }
    EXPECT_EQ(next, parts.normed());
    EXPECT_EQ(next, 40);
  }
}

}  // namespace
}  // namespace snug::ops
