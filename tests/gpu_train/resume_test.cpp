// On a GPU, too, a run that was saved and resumed is the run that was never stopped.
#include "support/random_resume.h"

#include "gpu_train/gpu_run.h"

namespace snug {
namespace {

class GpuResume : public OnGpu {};

TEST_F(GpuResume, IsExact) {
  constexpr int kGpuResumeSeeds = 16;
  for (int seed = 0; seed < seeds_to_try(kGpuResumeSeeds); ++seed) {
    ASSERT_NO_THROW(expect_resume_is_exact(seed, kDeterministic, &gpu())) << seed;
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace snug
