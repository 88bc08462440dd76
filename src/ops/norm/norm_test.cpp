#include <gtest/gtest.h>

#include "ops/norm/rms_norm.h"
#include "ops/testing/op_check.h"

namespace snug::ops {

TEST(RmsNorm, Checks) { check_op(rms_norm_def); }

}  // namespace snug::ops
