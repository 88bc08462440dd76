// Ranks and their lanes at any pace: with random pauses before ops, others on each rank and lane,
// results have the same bits and no rank waits for ever.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>

#include <iostream>

#include "base/error.h"
#include "comm/threads.h"
#include "support/random_job.h"
#include "support/rank_run.h"
#include "support/rank_watch.h"

namespace snug {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class RankTiming : public ::testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};

// SNUG_SEEDS=100 tries so many, and prints a table.
TEST_F(RankTiming, RandomPausesChangeNoBit) {
  constexpr int kUsually = 4;
  constexpr int kDelayedSteps = 2;
  const int seeds = seeds_to_try(kUsually);
  for (int seed = 0; seed < seeds; ++seed) {
    const DrawnRankJob job = draw_rank_job(seed);
    SCOPED_TRACE(job.text);
    const std::string directory = ::testing::TempDir();
    const auto run = [&](std::optional<uint64_t> delay_seed) {
      return run_ranks(job.model, job.build, job.recipe, kDelayedSteps,
                       {.test = {.delay_seed = delay_seed}, .offload_dir = directory});
    };
    ASSERT_NO_THROW({
      const RankResult plain = run({});
      const RankResult delayed = run(static_cast<uint64_t>(seed));
      EXPECT_EQ(delayed.losses, plain.losses);
      EXPECT_EQ(delayed.evaluated, plain.evaluated);
      EXPECT_TRUE(delayed.weights == plain.weights);
    });
    if (seeds > kUsually)
      std::cout << fmt::format("{:4} {}  {}\n", seed, HasFailure() ? "differs" : "same",
                               job.short_text);
    if (HasFailure()) return;
  }
}

TEST_F(RankTiming, WaitingRanksAreNamed) {
  ThreadGroup gathers(2), sums(2);
  RankWatch watch(0.05, [&](const std::string& why) {
    for (ThreadGroup* group : {&gathers, &sums}) group->end(0).abort(why);
  });
  std::vector<std::byte> bytes(8);
  const auto failure_of = [&](Communicator& end) {
    try {
      end.all_gather(std::span(bytes).first(4), bytes.data(), nullptr);
      return std::string("nothing");
    } catch (const Error& e) {
      return std::string(e.what());
    }
  };
  // Each is where the other comes later.
  std::string other;
  std::thread second([&] { other = failure_of(watch.end(1, "comm.dp.sum", sums.end(1))); });
  const std::string mine = failure_of(watch.end(0, "comm.dp.gather", gathers.end(0)));
  second.join();
  EXPECT_EQ(mine, other);
  EXPECT_THAT(mine, AllOf(HasSubstr("no rank has gone on for 0.05 s: "),
                          HasSubstr("rank 0, lane comm.dp.gather: all_gather of 4 bytes, call 1"),
                          HasSubstr("rank 1, lane comm.dp.sum: all_gather of 4 bytes, call 1")));
}

}  // namespace
}  // namespace snug
