// Plan = run on every rank: in every space the bytes that were planned are those that were allocated
// and those that were written, and all ranks have the same plan.
#include <gtest/gtest.h>
#include <omp.h>

#include <iostream>

#include "base/units.h"
#include "support/random_job.h"
#include "support/rank_run.h"

namespace snug {
namespace {

class RankBytes : public ::testing::Test {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};

// The first that is wrong, in words; empty: every number is what it must be. The ranks of one of
// `stages` have one plan.
std::string fault_in(const RankResult& all, int64_t stages) {
  const size_t in_stage = all.bytes.size() / static_cast<size_t>(stages);
  for (size_t rank = 0; rank < all.bytes.size(); ++rank) {
    const auto& first = all.bytes[rank - rank % in_stage];
    for (size_t s = 0; s < kSpaces; ++s) {
      const RankSpaceBytes& b = all.bytes[rank][s];
      if (b.planned == first[s].planned && b.allocated == b.planned && b.followed == b.planned &&
          b.measured >= b.certain && b.measured <= b.written)
        continue;
      return fmt::format(
          "rank {}, {}: planned {} (the first of its stage {}), allocated {}, touched {}, "
          "written {} of {}, {} for certain",
          rank, name_of(static_cast<Space>(s)), b.planned, first[s].planned, b.allocated,
          b.followed, b.measured, b.written, b.certain);
    }
  }
  return "";
}

// The unwritten padding at the end of arenas, in bytes of all ranks.
int64_t padding_at_the_end(const RankResult& all) {
  int64_t bytes = 0;
  for (const auto& rank : all.bytes)
    for (const RankSpaceBytes& b : rank) bytes += b.planned - b.written;
  return bytes;
}

// Of the ranks that have most: device, host and disk.
std::string planned_text(const RankResult& all) {
  std::array<int64_t, kSpaces> most{};
  for (const auto& rank : all.bytes)
    for (size_t s = 0; s < kSpaces; ++s) most[s] = std::max(most[s], rank[s].planned);
  return fmt::format("{:>10} {:>9} {:>9}", format_exact(most[0]), format_exact(most[1]),
                     format_exact(most[2]));
}

// SNUG_SEEDS=80 tries so many, and prints a table.
void expect_one_number(DrawnRankJob draw(int seed)) {
  constexpr int kUsually = 6;
  constexpr int kBytesSteps = 2;
  const int seeds = seeds_to_try(kUsually);
  for (int seed = 0; seed < seeds; ++seed) {
    const DrawnRankJob job = draw(seed);
    SCOPED_TRACE(job.text);
    const std::string directory = ::testing::TempDir();
    RankResult all;
    ASSERT_NO_THROW(
        all = run_ranks(job.model, job.build, job.recipe, kBytesSteps, {.offload_dir = directory}));
    const std::string fault = fault_in(all, job.recipe.mesh.pp);
    EXPECT_EQ(fault, "");
    if (seeds <= kUsually) continue;
    std::cout << fmt::format("{:3} {}  {}  padding at the end {:>7}  {}\n", seed,
                             fault.empty() ? "equal" : fault, planned_text(all),
                             format_exact(padding_at_the_end(all)), job.short_text);
  }
}

TEST_F(RankBytes, PlannedEqualsAllocatedAndMeasured) { expect_one_number(draw_rank_job); }

TEST_F(RankBytes, OverMeshesToo) { expect_one_number(draw_mesh_job); }

}  // namespace
}  // namespace snug
