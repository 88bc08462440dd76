#include "ops/comm/comm.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/testing/refusal.h"

namespace snug::ops {
namespace {

using ::testing::HasSubstr;

class CommTest : public ::testing::Test {
 protected:
  Cost cost() { return cost_of(module_, b_.last(), Backend::cpu); }
  Module module_;
  Builder b_{module_, "p"};
  ValueId x_ =
      add_shared(module_, "x", {Dtype::f32, {8, 3}}, Category::params, Scope::step);  // 96 bytes
};

}  // namespace

TEST_F(CommTest, GatherAndScatterAreInverseShapes) {
  const ValueId full = all_gather(b_, "gather", x_, {.axis = "dp", .ranks = 4, .seq = 7});
  EXPECT_EQ(b_.type(full).text(), "f32[32,3]");
  EXPECT_EQ(b_.last().def->comm, Comm::collective);
  EXPECT_EQ(b_.last().attrs.s("axis"), "dp");
  EXPECT_EQ(b_.last().attrs.i("seq"), 7);
  EXPECT_EQ(cost().bytes_written, 3 * 96);
  const ValueId shard = reduce_scatter(b_, "scatter", full, {.axis = "dp", .ranks = 4});
  EXPECT_EQ(b_.type(shard), b_.type(x_));
  EXPECT_EQ(cost().bytes_read, 3 * 96);
}

TEST_F(CommTest, BlocksOfTokensAreGatheredAndScattered) {
  const ValueId all = gather_rows(b_, "gather", x_, 2, 12, {.axis = "tp", .ranks = 3});
  EXPECT_EQ(b_.type(all).text(), "f32[2,12,3]");
  EXPECT_EQ(cost().bytes_written, 2 * 96);
  const ValueId rows = scatter_rows(b_, "scatter", all, {.axis = "tp", .ranks = 3});
  EXPECT_EQ(b_.type(rows), b_.type(x_));
  EXPECT_THAT(refusal_of([&] { gather_rows(b_, "g", x_, 2, 11, {.axis = "tp", .ranks = 3}); }),
              HasSubstr("f32[8,3] of each of 3 ranks are not the tokens of [2,11]"));
  EXPECT_THAT(refusal_of([&] { scatter_rows(b_, "s", all, {.axis = "tp", .ranks = 5}); }),
              HasSubstr("the tokens of f32[2,12,3] do not divide over 5 ranks"));
}

TEST_F(CommTest, AllReduceMovesEveryBlockTwice) {
  const ValueId y = all_reduce(b_, "reduce", x_, {.axis = "tp", .ranks = 2});
  EXPECT_EQ(b_.type(y), b_.type(x_));
  EXPECT_EQ(cost().bytes_read, 96);
  const ValueId z = broadcast(b_, "broadcast", x_, {.axis = "dp", .ranks = 2});
  EXPECT_EQ(b_.type(z), b_.type(x_));
}

TEST_F(CommTest, MessageKeepsItsType) {
  send(b_, "to", x_, {.axis = "pp", .peer = 1, .seq = 5});
  EXPECT_EQ(b_.last().def->comm, Comm::send);
  EXPECT_TRUE(b_.last().outputs.empty());
  EXPECT_EQ(cost().bytes_read, 96);
  const ValueId y = recv(b_, "from", b_.type(x_), {.axis = "pp", .peer = 0, .seq = 5});
  EXPECT_EQ(b_.type(y), b_.type(x_));
  EXPECT_EQ(b_.last().def->comm, Comm::recv);
  EXPECT_EQ(b_.last().attrs.i("peer"), 0);
}

TEST_F(CommTest, RefusesIndivisibleSizes) {
  EXPECT_THAT(refusal_of([&] { reduce_scatter(b_, "s", x_, {.axis = "dp", .ranks = 3}); }),
              HasSubstr("reduce_scatter 's': full f32[8,3] does not divide over 3 ranks"));
  EXPECT_THAT(refusal_of([&] { all_reduce(b_, "r", x_, {.axis = "dp", .ranks = 0}); }),
              HasSubstr("0 ranks on axis 'dp'"));
  EXPECT_NE(refusal_of([&] { all_gather(b_, "g", x_, {.axis = "dp", .ranks = int64_t{1} << 62}); }),
            "");
}

}  // namespace snug::ops
