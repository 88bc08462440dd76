#include "hal/cuda/pinning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace snug {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(Pinning, LockedMemoryLimitIsReportedWhenTooSmall) {
  constexpr int64_t kGiB = int64_t{1} << 30;
  EXPECT_THAT(what_helps_to_pin(kGiB, 8 << 20),
              AllOf(HasSubstr("`ulimit -l` is 8.00 MiB"), HasSubstr("memlock=-1"),
                    HasSubstr("--host-budget")));
  for (const auto lockable : {std::optional<int64_t>(), std::optional(kGiB)}) {
    EXPECT_THAT(what_helps_to_pin(kGiB, lockable),
                AllOf(HasSubstr("--host-budget"), HasSubstr("cgroup"), Not(HasSubstr("ulimit"))));
  }
}

}  // namespace
}  // namespace snug
