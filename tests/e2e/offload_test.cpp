// Offload is exact: whatever lives in host memory or on disk, every loss and every final weight has
// the bits of the run in device memory; on lanes side by side, in random orders of what they allow,
// and with dead values overwritten. What was planned is allocated and measured in every space.
#include <gtest/gtest.h>
#include <omp.h>

#include "support/random_offload.h"

namespace snug {
namespace {

constexpr int kOffloadSeeds = 48;
constexpr int kOffloadShards = 12;  // tests that share the seeds, so that they run side by side

class OffloadIsExact : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override { omp_set_num_threads(1); }
};

TEST_P(OffloadIsExact, BitForBit) {
  for (int seed = GetParam(); seed < seeds_to_try(kOffloadSeeds); seed += kOffloadShards) {
    const DrawnOffload d = draw_offload(seed);
    SCOPED_TRACE(d.text);
    ASSERT_NO_THROW(expect_offload_is_exact(
        d, {{"on lanes"}, {"in a random order", {.poison_dead = true, .order_seed = 7}}}));
    if (HasFailure()) return;
  }
}

// A fetch without a bound would live from the first op on, a put without one until the last.
TEST(Offload, StagingDoesNotGrowWithLayers) {
  for (const char* what : {"optimizer,master", "params", "grads", "activations", "all"}) {
    for (const char* recompute : {"none", "full"}) {
      std::vector<int64_t> transient;
      for (const int layers : {12, 24, 48}) {
        const Model model = Model::load(fmt::format("llama-7b:256x{}", layers));
        Recipe recipe{
            .accum = 2, .recompute = parse_recompute(recompute), .precision = Dtype::bf16};
        recipe.offload = parse_offload(what);
        const Plan plan = make_plan("deep", model.forward({.batch = 2, .seq = 64}), recipe);
        transient.push_back(plan.memory.device().placement.transient_arena_bytes);
      }
      if (std::string_view(what) == "activations" || std::string_view(what) == "all") {
        EXPECT_EQ(transient[1], transient[0]) << what << " recompute " << recompute;
        EXPECT_EQ(transient[2], transient[0]) << what << " recompute " << recompute;
      } else {  // what forward keeps stays, and grows evenly
        EXPECT_EQ(transient[2] - transient[1], 2 * (transient[1] - transient[0]))
            << what << " recompute " << recompute;
      }
    }
  }
}

// From disk all comes through host memory, and the first hop has bounds of its own.
TEST(Offload, StagingForDiskDoesNotGrowWithLayers) {
  for (const char* what : {"optimizer=disk,master=disk", "params=disk", "grads=disk",
                           "activations=disk", "all=disk"}) {
    for (const char* recompute : {"none", "full"}) {
      std::vector<int64_t> host, device;
      for (const int layers : {12, 24, 48}) {
        const Model model = Model::load(fmt::format("llama-7b:256x{}", layers));
        Recipe recipe{
            .accum = 2, .recompute = parse_recompute(recompute), .precision = Dtype::bf16};
        recipe.offload = parse_offload(what);
        const Plan plan = make_plan("deep", model.forward({.batch = 2, .seq = 64}), recipe);
        host.push_back(plan.memory[Space::host].placement.arena_bytes);
        device.push_back(plan.memory.device().placement.transient_arena_bytes);
      }
      EXPECT_GT(host[0], 0) << what;
      EXPECT_EQ(host[1], host[0]) << what << " recompute " << recompute;
      EXPECT_EQ(host[2], host[0]) << what << " recompute " << recompute;
      EXPECT_EQ(device[2] - device[1], 2 * (device[1] - device[0])) << what;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, OffloadIsExact, ::testing::Range(0, kOffloadShards));

}  // namespace
}  // namespace snug
