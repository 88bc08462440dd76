// A run that was saved and resumed is the run that was never stopped, with any recipe before and
// after.
#include <gtest/gtest.h>

#include "support/random_resume.h"

namespace snug {
namespace {

constexpr int kResumeSeeds = 16, kResumeShards = 4;

class ResumeIsExact : public ::testing::TestWithParam<int> {};

TEST_P(ResumeIsExact, BitForBit) {
  for (int seed = GetParam(); seed < seeds_to_try(kResumeSeeds); seed += kResumeShards) {
    ASSERT_NO_THROW(expect_resume_is_exact(seed)) << seed;
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, ResumeIsExact, ::testing::Range(0, kResumeShards));

}  // namespace
}  // namespace snug
