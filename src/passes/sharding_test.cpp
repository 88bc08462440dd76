#include "passes/sharding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "ops/comm/comm.h"
#include "ops/optimizer/sum_blocks.h"

namespace snug {
namespace {

using ::testing::ElementsAre;

// Six ranks; two copies of the state, each shared by three.
Sharding two_copies(int64_t rank) {
  return {.ranks = 6, .rank = rank, .level = 3, .threshold = 0, .group = 3};
}

}  // namespace

TEST(Sharding, SharersAreNeighboursInTheJob) {
  std::set<int64_t> ranks;
  for (int64_t job_rank = 0; job_rank < 6; ++job_rank) {
    const Sharding mine = two_copies(rank_on_axis(job_rank, two_copies(0)));
    ranks.insert(mine.rank);
    EXPECT_EQ(mine.copy(), job_rank / 3);
    EXPECT_EQ(mine.place(), job_rank % 3);
  }
  EXPECT_EQ(ranks.size(), 6);
}

TEST(Sharding, AxisIsWithinRanksOfJob) {
  const Sharding fourth = two_copies(rank_on_axis(4, two_copies(0)));
  EXPECT_THAT(places_on(over_all(fourth).axis, fourth), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_THAT(places_on(over_sharers(fourth).axis, fourth), ElementsAre(3, 4, 5));
  EXPECT_THAT(places_on(over_copies(fourth).axis, fourth), ElementsAre(1, 4));
  EXPECT_EQ(over_copies(fourth).stride, 3);
  const Sharding one_copy{.ranks = 3, .rank = 1, .level = 3};
  EXPECT_EQ(over_sharers(one_copy).axis, over_all(one_copy).axis);
  EXPECT_THAT(places_on(over_all(one_copy).axis, one_copy), ElementsAre(0, 1, 2));
}

// A rank sums as much as it would without copies; together they are a shard.
TEST(Sharding, CopiesShareTheSumOfAShard) {
  const Value weight{.name = "w", .type = {Dtype::f32, {100, 1000}}};
  const Cut cut = cut_of(weight, /*grain=*/8, two_copies(5));
  EXPECT_EQ(cut.ranks, 3);
  EXPECT_EQ(cut.rank, 2);
  EXPECT_EQ(cut.block % ops::kSumBlock, 0);
  EXPECT_GE(cut.padded(), 100'000);
  EXPECT_EQ(cut.block % 2, 0);
}

}  // namespace snug
