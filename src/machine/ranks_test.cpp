#include "machine/ranks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include "base/testing.h"
#include "hal/cpu/cpu_name.h"
#include "snug/ranks.h"

namespace snug {
namespace {

using testing::Environment;
using ::testing::HasSubstr;
using ::testing::Not;

Options with_ranks(int64_t ranks) {
  Options out;
  out.ranks = ranks;
  return out;
}

}  // namespace

TEST(Ranks, SeveralRanksAreLaunched) {
  EXPECT_FALSE(rank_role({}).launches);
  EXPECT_FALSE(rank_role(with_ranks(1)).launches);
  EXPECT_TRUE(rank_role(with_ranks(2)).launches);
  EXPECT_TRUE(rank_role({}).prints);
  EXPECT_THROW(rank_role(with_ranks(-1)), Error);
  EXPECT_THROW(rank_role(with_ranks(2000)), Error);
}

TEST(Ranks, RanksOnSameCoresShareThem) {
  const std::string four = "node1 0;1;2;3;", other = "node2 0;1;2;3;";
  EXPECT_EQ(fewest_cores({four}), 4);
  EXPECT_EQ(fewest_cores({four, four, four, four, four, four, four, four}), 0.5);
  EXPECT_EQ(fewest_cores({four, other}), 4) << "each host has its own";
  EXPECT_EQ(fewest_cores({"node1 0;1;", "node1 2;3;"}), 2) << "bound apart";
  EXPECT_EQ(fewest_cores({four, four, "node2 7;"}), 1) << "the rank with the fewest delays all";
  EXPECT_EQ(count_cores(cores_here()), omp_get_num_procs());
}

TEST(Ranks, LaunchedRanksStartNoOthers) {
  const Environment rank("RANK", "1"), ranks("WORLD_SIZE", "4"),
      address("MASTER_ADDR", "127.0.0.1"), port("MASTER_PORT", "9");
  for (const int64_t asked : {0, 4}) {
    EXPECT_FALSE(rank_role(with_ranks(asked)).launches);
    EXPECT_FALSE(rank_role(with_ranks(asked)).prints);
  }
  Options all = with_ranks(0);
  all.log_ranks = true;
  EXPECT_TRUE(rank_role(all).prints);
  try {
    rank_role(with_ranks(2));
    FAIL() << "2 of 4";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "--ranks 2, and this is rank 1 of 4 that torchrun has started");
  }
}

TEST(Ranks, OneAloneJoinsNoJob) {
  EXPECT_EQ(join_job({}), nullptr);
  const Environment rank("RANK", "0"), ranks("WORLD_SIZE", "1");
  EXPECT_EQ(join_job({}), nullptr);
}

TEST(Ranks, EachHasGpuUnlessShared) {
  require_gpus(4, 4, false);
  require_gpus(4, 1, true);
  try {
    require_gpus(4, 1, false);
    FAIL() << "4 on 1";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::usage);
    EXPECT_STREQ(error.what(), "4 ranks on a machine with 1 GPU");
    EXPECT_THAT(error.hint(), HasSubstr("--share-gpu"));
  }
}

TEST(Ranks, OptionsOfAHostMayDiffer) {
  Options one, other;
  one.model = other.model = "gpt2";
  other.threads = 7;
  other.offload_dir = "/disk";
  EXPECT_EQ(shared_options_text(one), shared_options_text(other));
  other.lr = 1;
  EXPECT_NE(shared_options_text(one), shared_options_text(other));
  EXPECT_THAT(shared_options_text(other), HasSubstr("\n--lr 1\n"));
  EXPECT_THAT(shared_options_text(other), Not(HasSubstr("--threads")));
}

}  // namespace snug
