// Offload on a GPU is exact: with values in pinned host memory, copied on streams of their own, every
// loss and every final weight has the bits of the run in the GPU's memory, whatever the lanes'
// timing.
#include "gpu_train/gpu_run.h"
#include "support/random_offload.h"

namespace snug {
namespace {

constexpr int kOffloadSeeds = 48;
constexpr int kOffloadShards = 6;

class GpuOffloadIsExact : public OnGpu, public ::testing::WithParamInterface<int> {};

TEST_P(GpuOffloadIsExact, BitForBit) {
  const ExecutorOptions delayed{.test = {.delay_seed = 11}, .math = kDeterministic.math};
  for (int seed = GetParam(); seed < seeds_to_try(kOffloadSeeds); seed += kOffloadShards) {
    const DrawnOffload d = draw_offload(seed);
    SCOPED_TRACE(d.text);
    ASSERT_NO_THROW(expect_offload_is_exact(
        d, {{"on lanes", kDeterministic}, {"with delays", delayed}}, &gpu()));
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, GpuOffloadIsExact, ::testing::Range(0, kOffloadShards));

}  // namespace
}  // namespace snug
