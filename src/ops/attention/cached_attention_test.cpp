#include "ops/attention/cached_attention.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/testing/op_check.h"
#include "ops/testing/refusal.h"

namespace snug::ops {
namespace {

TEST(CachedAttention, Checks) { check_op(cached_attention_def); }
TEST(CachedAttention, ChecksInHalves) { check_op_in_halves(cached_attention_def); }

class CachedAttentionTest : public ::testing::Test {
 protected:
  ValueId input(std::string name, Type type) {
    return add_shared(module_, std::move(name), type, Category::buffers, Scope::persistent);
  }
  std::string refusal(const Shape& cache, const Shape& starts) {
    ++made_;
    const CachedAttention p{.qkv = input(fmt::format("qkv{}", made_), {Dtype::f32, {2, 3, 32}}),
                            .keys = input(fmt::format("keys{}", made_), {Dtype::f32, cache}),
                            .values = input(fmt::format("values{}", made_), {Dtype::f32, cache}),
                            .starts = input(fmt::format("starts{}", made_), {Dtype::i32, starts}),
                            .heads = 4,
                            .kv_heads = 2,
                            .head_dim = 4};
    return refusal_of([&] { cached_attention(b_, fmt::format("mix{}", made_), p); });
  }
  Module module_;
  Builder b_{module_, "p"};
  int made_ = 0;
};

TEST_F(CachedAttentionTest, WritesTheNextVersionsOfItsCaches) {
  EXPECT_EQ(refusal({2, 9, 2, 4}, {2, 3}), refusal_of([] {}));
  const Op& op = b_.last();
  EXPECT_EQ(module_.root(op.outputs[1]), op.inputs[1]);
  EXPECT_EQ(module_.root(op.outputs[2]), op.inputs[2]);
}

TEST_F(CachedAttentionTest, RefusesMismatchedCaches) {
  using ::testing::HasSubstr;
  EXPECT_THAT(refusal({2, 2, 2, 4}, {2, 3}),
              HasSubstr("3 new tokens do not fit a cache of 2 positions"));
  EXPECT_THAT(refusal({2, 9, 4, 4}, {2, 3}), HasSubstr("keys is f32[2,9,4,4], not f32[2,9,2,4]"));
  EXPECT_THAT(refusal({2, 9, 8}, {2, 3}), HasSubstr("are not [batch, positions, heads, size]"));
  EXPECT_THAT(refusal({2, 9, 2, 4}, {2, 9}), HasSubstr("starts is i32[2,9], not i32[2,3]"));
}

}  // namespace
}  // namespace snug::ops
