#include "passes/mesh.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ops/comm/comm.h"

namespace snug {

using ::testing::ElementsAre;

TEST(Mesh, TensorRanksAreNeighboursAndStagesOutermost) {
  Mesh mesh{.pp = 2, .tp = 2};
  Sharding dp{.ranks = 3};
  EXPECT_EQ(ranks_of(mesh, dp), 12);
  go_to_rank(9, mesh, dp);
  EXPECT_EQ(mesh.stage, 1);
  EXPECT_EQ(dp.rank, 1);
  EXPECT_EQ(mesh.part, 1);
  EXPECT_THAT(job_ranks_on("tp", mesh, dp), ElementsAre(8, 9));
  EXPECT_THAT(job_ranks_on("pp", mesh, dp), ElementsAre(3, 9));
  EXPECT_THAT(job_ranks_on(over_all(dp).axis, mesh, dp), ElementsAre(7, 9, 11));
  EXPECT_EQ(over_all(dp).stride, 2);
}

// Every axis is seen the same way by all that are on it, and its members are at equal distances in the
// order of the job: what verify_ranks takes a group to be.
TEST(Mesh, RanksOfAnAxisAgree) {
  const Mesh sizes{.pp = 2, .tp = 2};
  const Sharding dp{.ranks = 4, .level = 3, .group = 2};
  for (int64_t rank = 0; rank < ranks_of(sizes, dp); ++rank) {
    Mesh mesh = sizes;
    Sharding mine = dp;
    go_to_rank(rank, mesh, mine);
    for (const std::string& axis : {std::string("tp"), std::string("pp"), over_all(mine).axis,
                                    over_sharers(mine).axis, over_copies(mine).axis}) {
      const std::vector<int> members = job_ranks_on(axis, mesh, mine);
      EXPECT_THAT(members, ::testing::Contains(rank));
      for (const int other : members) {
        Mesh there = sizes;
        Sharding theirs = dp;
        go_to_rank(other, there, theirs);
        EXPECT_EQ(job_ranks_on(axis, there, theirs), members) << axis;
      }
    }
  }
}

}  // namespace snug
