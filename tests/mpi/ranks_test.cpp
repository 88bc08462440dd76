// The engine over MPI, as the four ranks that mpirun starts: every rank runs every test.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>
#include <thread>

#include "base/error.h"
#include "comm/mpi.h"
#include "comm/sockets.h"
#include "comm/testing/every_call.h"

namespace snug {
namespace {

class MpiRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const MpiProbe mpi = probe_mpi(); !mpi.why_not.empty())
      GTEST_SKIP() << "no MPI here: " << mpi.why_not;
    static const std::unique_ptr<Bootstrap> all = mpi_bootstrap();
    all_ = all.get();
  }

  Bootstrap* all_ = nullptr;
};

TEST_F(MpiRanks, AreFour) { EXPECT_EQ(all_->ranks(), 4); }

TEST_F(MpiRanks, EveryCallAtEverySize) {
  const auto group = mpi_group(*all_, "test");
  for (const int64_t block : {0, 1, 7, 4096, 300'001}) check_every_call(*group, block);
}

// As blocks beyond 2^31 bytes are.
TEST_F(MpiRanks, BlocksBeyondMpiCountsAreSplit) {
  const auto group = mpi_group(*all_, "test", {.most_bytes = 1000});
  for (const int64_t block : {1, 999, 1000, 1001, 25'500}) check_every_call(*group, block);
}

void check_side_by_side(Bootstrap& all, const MpiSettings& settings) {
  const auto a = mpi_group(all, "a", settings), b = mpi_group(all, "b", settings);
  std::thread other([&] { check_every_call(*b, 5000); });
  check_every_call(*a, 7000);
  other.join();
}
TEST_F(MpiRanks, TwoGroupsSideBySide) { check_side_by_side(*all_, {}); }
TEST_F(MpiRanks, TwoGroupsTakeTurns) { check_side_by_side(*all_, {.one_at_a_time = true}); }

// Those of one half, whose Bootstrap is over sockets.
TEST_F(MpiRanks, SomeOfThemAreAGroup) {
  const int parity = all_->rank() % 2;
  PartBootstrap half(*all_, {parity, parity + 2});
  check_every_call(*mpi_group(half, "half"), 100);
  check_every_call(*socket_group(half, "half over sockets"), 100);
}

TEST_F(MpiRanks, UnrelatedRanksFormNoGroup) {
  struct Twice final : Bootstrap {
    int rank() const override { return 0; }
    int ranks() const override { return 2; }
    std::vector<std::string> exchange(std::string_view mine) override {
      return {std::string(mine), std::string(mine)};
    }
  } twice;
  EXPECT_THROW(mpi_group(twice, "test"), Error);
}

// Apart from the others: MPI does not end where a group has failed, and mpirun reports that.
class MpiFailure : public MpiRanks {};

TEST_F(MpiFailure, EndsEveryCall) {
  const auto group = mpi_group(*all_, "test");
  std::string said;
  try {
    if (all_->rank() == 2) group->abort("rank 2: out of luck");
    group->barrier();
  } catch (const Error& error) {
    said = error.what();
  }
  EXPECT_THROW(group->barrier(), Error) << "and later ones";
  const auto all_said = all_->exchange(said);  // no rank leaves before all have seen it
  EXPECT_THAT(all_said, ::testing::Each("rank 2: out of luck"));
  if (all_->rank() == 0 && !HasFailure()) std::cout << "all ranks were told" << std::endl;
  all_->exchange("");
}

}  // namespace
}  // namespace snug
