#include "ops/attention/attention.h"

#include <gtest/gtest.h>

#include "ops/attention/rope.h"
#include "ops/testing/op_check.h"

namespace snug::ops {
namespace {

TEST(Rope, Checks) { check_op(rope_def); }
TEST(Attention, Checks) { check_op(attention_def); }
TEST(FlashAttention, Checks) { check_op(flash_attention_def); }

}  // namespace
}  // namespace snug::ops
